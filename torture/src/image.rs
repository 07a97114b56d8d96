//! A file system in a file: a small disk that can be filled, and whose power can be cut.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An ext4 file system in a file, mounted through a loop device. The drop unmounts and removes it.
///
/// The file contains what the file system has written to its disk, and nothing that waits in the
/// kernel's memory. A copy of the file is what a power cut leaves.
#[derive(Debug)]
pub struct Image {
    file: PathBuf,
    root: PathBuf,
}

impl Image {
    /// Checks whether this machine can create an image.
    ///
    /// # Errors
    /// Returns one line that says why it cannot, and what to do.
    pub fn available() -> Result<(), String> {
        let directory = tempfile::tempdir().map_err(|error| format!("no directory for a trial image: {error}"))?;
        let trial = Self::make(&directory.path().join("trial"), 8);
        trial.map(drop).map_err(|why| format!("a file system in a file needs root, mkfs.ext4 and loop devices: {why}"))
    }

    /// Creates an image of this size and mounts it at `path`. The file is created beside that
    /// directory.
    ///
    /// # Errors
    /// Returns one line that says what could not be done.
    pub fn make(path: &Path, mebibytes: u64) -> Result<Self, String> {
        let image = Self::at(path)?;
        let file = File::create(&image.file).map_err(|error| error.to_string())?;
        file.set_len(mebibytes << 20).map_err(|error| error.to_string())?;
        // Writes all tables at once. Otherwise the kernel writes the rest later, and the image
        // changes while no process writes.
        let options = "lazy_itable_init=0,lazy_journal_init=0";
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0", "-E", options]).arg(&image.file))?;
        image.mount()
    }

    /// Returns an image of its own that contains what a power cut at this moment leaves. If a block
    /// was written during the copy, the image is copied again, so that it shows one moment. The
    /// writing processes should stand still meanwhile.
    ///
    /// # Errors
    /// Returns one line that says what could not be done.
    pub fn cut(&self, path: &Path) -> Result<Self, String> {
        let copy = Self::at(path)?;
        loop {
            let before = self.writes()?;
            run(Command::new("cp").arg("--sparse=always").arg(&self.file).arg(&copy.file))?;
            if self.writes()? == before {
                return copy.mount();
            }
        }
    }

    /// Writes everything that waits in the kernel's memory to the disk.
    ///
    /// # Errors
    /// Returns one line that says what could not be done.
    pub fn sync(&self) -> Result<(), String> {
        run(Command::new("sync").arg("--file-system").arg(&self.root)).map(drop)
    }

    /// Returns the mounted directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Fills the disk to its last byte.
    ///
    /// # Errors
    /// Every error except that the disk is full.
    pub fn fill(&self) -> io::Result<()> {
        let mut ballast = File::options().create(true).append(true).open(self.ballast())?;
        // In smaller and smaller pieces, so that space that other processes free or need meanwhile
        // is also taken.
        for size in [1 << 20, 1 << 16, 1 << 12, 1] {
            loop {
                match ballast.write(&vec![0x5a; size]) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(error),
                }
            }
        }
        ballast.sync_all().or_else(|error| if error.kind() == ErrorKind::StorageFull { Ok(()) } else { Err(error) })
    }

    /// Removes the file that fills the disk.
    ///
    /// # Errors
    /// If the disk was not filled, or the file system returns an error.
    pub fn free(&self) -> io::Result<()> {
        // A process that another thread started meanwhile may have the file open; then removing the
        // file alone frees nothing.
        File::options().write(true).open(self.ballast())?.set_len(0)?;
        fs::remove_file(self.ballast())?;
        // The file system reuses the blocks only after its journal has committed that they are
        // free.
        Ok(rustix::fs::syncfs(File::open(&self.root)?)?)
    }

    fn ballast(&self) -> PathBuf {
        self.root.join("ballast")
    }

    fn at(path: &Path) -> Result<Self, String> {
        fs::create_dir(path).map_err(|error| format!("make {}: {error}", path.display()))?;
        Ok(Self { file: path.with_extension("img"), root: path.to_owned() })
    }

    fn mount(self) -> Result<Self, String> {
        run(Command::new("mount").args(["-o", "loop,noatime"]).arg(&self.file).arg(&self.root))?;
        Ok(self)
    }

    /// Returns the number of writes to the disk, once no write is in flight: otherwise the number
    /// would say nothing.
    fn writes(&self) -> Result<u64, String> {
        let loops = run(Command::new("losetup").arg("--associated").arg(&self.file))?;
        let device = loops.split(':').next().unwrap_or_default().trim_start_matches("/dev/").to_owned();
        loop {
            let counters = fs::read_to_string(format!("/sys/block/{device}/stat"))
                .map_err(|error| format!("the counters of {device:?}: {error}"))?;
            let counters: Vec<u64> = counters.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            match (counters.get(4), counters.get(8)) {
                (Some(writes), Some(0)) => return Ok(*writes),
                (Some(_), Some(_)) => {}
                _ => return Err(format!("the counters of {device:?} cannot be parsed")),
            }
        }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // Lazily, because a killed process may not have closed its files yet.
        let _ = run(Command::new("umount").arg("--lazy").arg(&self.root));
        let _ = fs::remove_file(&self.file);
        let _ = fs::remove_dir(&self.root);
    }
}

/// Runs a program to its end and returns its output.
fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program}: {}", why.trim().lines().next().unwrap_or("failed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an image, or prints one line if this machine cannot create one.
    fn image(mebibytes: u64) -> Option<(tempfile::TempDir, Image)> {
        if let Err(why) = Image::available() {
            eprintln!("not tested here: {why}");
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let image = Image::make(&directory.path().join("disk"), mebibytes).expect("an image");
        Some((directory, image))
    }

    #[test]
    fn a_power_cut_keeps_what_was_synced_and_nothing_else() {
        let Some((directory, image)) = image(16) else { return };
        let synced = File::create(image.root().join("synced")).expect("make a file");
        (&synced).write_all(b"here").expect("write");
        synced.sync_all().expect("sync");
        File::open(image.root()).expect("open the directory").sync_all().expect("sync");
        fs::write(image.root().join("lost"), "gone").expect("write");
        let cut = image.cut(&directory.path().join("cut")).expect("cut the power");
        assert_eq!(fs::read_to_string(cut.root().join("synced")).expect("synced"), "here");
        assert!(!cut.root().join("lost").exists(), "only the kernel's memory contained it");
        assert!(image.root().join("lost").exists(), "the image itself is unchanged");
    }

    #[test]
    fn a_full_disk_takes_nothing_until_it_is_freed() {
        let Some((_directory, image)) = image(8) else { return };
        for name in ["one", "two"] {
            image.fill().expect("fill");
            let refused = fs::write(image.root().join(name), [0; 8192]).expect_err("no space");
            assert_eq!(refused.kind(), ErrorKind::StorageFull);
            image.free().expect("free");
            fs::write(image.root().join(name), [0; 8192]).expect("space");
        }
    }
}

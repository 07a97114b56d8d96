//! A file system in a file: a small disk that can be filled, and whose power can be cut.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An ext4 file system in a file, mounted by a loop device. Unmounted and removed when dropped.
///
/// What the file holds is what the file system has given to its disk, and nothing that waits in the memory of the kernel: a copy
/// of it is what a power cut leaves.
#[derive(Debug)]
pub struct Image {
    file: PathBuf,
    root: PathBuf,
}

impl Image {
    /// Whether this machine lets us: in one line why not, and what to do.
    ///
    /// # Errors
    /// With that line.
    pub fn available() -> Result<(), String> {
        let directory = tempfile::tempdir().map_err(|error| format!("no directory for a trial image: {error}"))?;
        let trial = Self::make(&directory.path().join("trial"), 8);
        trial.map(drop).map_err(|why| format!("a file system in a file needs root, mkfs.ext4 and loop devices: {why}"))
    }

    /// Makes one of this size at `path`, with the file beside the mounted directory.
    ///
    /// # Errors
    /// In one line what could not be done.
    pub fn make(path: &Path, mebibytes: u64) -> Result<Self, String> {
        let image = Self::at(path)?;
        let file = File::create(&image.file).map_err(|error| error.to_string())?;
        file.set_len(mebibytes << 20).map_err(|error| error.to_string())?;
        // Without a wait for the rest of the tables: what is written later would change the image while nobody writes.
        let options = "lazy_itable_init=0,lazy_journal_init=0";
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0", "-E", options]).arg(&image.file))?;
        image.mount()
    }

    /// What a power cut at this moment leaves, as an image of its own. Copied again if a block was written meanwhile, so it is
    /// of one moment; whoever writes should stand still.
    ///
    /// # Errors
    /// In one line what could not be done.
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

    /// Gives all that waits in the memory of the kernel to the disk.
    ///
    /// # Errors
    /// In one line what could not be done.
    pub fn sync(&self) -> Result<(), String> {
        run(Command::new("sync").arg("--file-system").arg(&self.root)).map(drop)
    }

    /// The mounted directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Fills the disk to its last byte.
    ///
    /// # Errors
    /// Any but that the disk is full.
    pub fn fill(&self) -> io::Result<()> {
        let mut ballast = File::options().create(true).append(true).open(self.ballast())?;
        // In ever smaller pieces: what others free or need meanwhile is taken too.
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

    /// Frees what filled it.
    ///
    /// # Errors
    /// If it was not full.
    pub fn free(&self) -> io::Result<()> {
        // A process that was begun by another thread meanwhile may hold the file open, so that removing it alone frees nothing.
        File::options().write(true).open(self.ballast())?.set_len(0)?;
        fs::remove_file(self.ballast())?;
        // Blocks are given to others only after the journal has committed that they are free.
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

    /// How often the disk was written to. None is on its way, or the number would say nothing.
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
                _ => return Err(format!("the counters of {device:?} are not understood")),
            }
        }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // Lazily: whoever died may not have let go of its files yet.
        let _ = run(Command::new("umount").arg("--lazy").arg(&self.root));
        let _ = fs::remove_file(&self.file);
        let _ = fs::remove_dir(&self.root);
    }
}

/// Runs a program to its end; gives what it wrote.
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

    /// Where root and loop devices are, else one line.
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
        assert!(!cut.root().join("lost").exists(), "only the memory of the kernel has it");
        assert!(image.root().join("lost").exists(), "life goes on");
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

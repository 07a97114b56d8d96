//! One list of cases, each run on each database.

use std::path::Path;

/// Generates one test per case and database, and one more that compares the list with the files, so
/// that no case is forgotten. The test binary has a function `check(database, case)`. Its cases are
/// the `pub async fn`s of the files beside its `main.rs` whose argument has the type before the
/// list.
///
/// With `in memory too` each case also runs on the store in memory, except cases with a reason
/// behind their names; the test program shows these, with the reason, as ignored.
#[macro_export]
macro_rules! cases {
    ($binary:literal, $argument:literal, in memory too, $($noun:ident { $($case:ident $(: $not_in_memory:literal)?,)+ })+) => {
        $crate::cases! { @memory $($noun { $($case $(: $not_in_memory)?,)+ })+ }
        $crate::cases! { $binary, $argument, $($noun { $($case,)+ })+ }
    };
    ($binary:literal, $argument:literal, $($noun:ident { $($case:ident,)+ })+) => {
        $crate::cases! { @database sqlite Sqlite $($noun { $($case,)+ })+ }
        $crate::cases! { @database postgres Postgres $($noun { $($case,)+ })+ }

        #[test]
        fn every_case_stands_in_the_list() {
            let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/", $binary);
            let listed = vec![$($(concat!(stringify!($noun), "::", stringify!($case)),)+)+];
            $crate::cases::compare(listed, directory.as_ref(), $argument);
        }
    };
    (@database $module:ident $database:ident $($noun:ident { $($case:ident,)+ })+) => {
        mod $module {
            $(mod $noun {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $case() {
                    super::super::check($crate::Database::$database, super::super::$noun::$case).await;
                })+
            })+
        }
    };
    (@memory $($noun:ident { $($case:ident $(: $not_in_memory:literal)?,)+ })+) => {
        mod memory {
            $(mod $noun {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                $(#[ignore = $not_in_memory])?
                async fn $case() {
                    super::super::check($crate::Database::Memory, super::super::$noun::$case).await;
                })+
            })+
        }
    };
}

/// Compares the cases in the files with the list.
///
/// # Panics
/// Panics if they differ.
pub fn compare(mut listed: Vec<&str>, directory: &Path, argument: &str) {
    let mut written = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the binary has a directory") {
        let path = entry.expect("read a directory").path();
        let noun = path.file_stem().and_then(|stem| stem.to_str()).expect("a file has a name").to_owned();
        for line in std::fs::read_to_string(&path).expect("read a source file").lines() {
            if let Some((case, rest)) = line.strip_prefix("pub async fn ").and_then(|rest| rest.split_once('('))
                && rest.starts_with(argument)
            {
                written.push(format!("{noun}::{case}"));
            }
        }
    }
    written.sort_unstable();
    listed.sort_unstable();
    assert_eq!(written, listed, "left: in the files; right: in the list");
}

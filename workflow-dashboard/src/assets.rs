//! The style sheet, the script and the icon of the browser's tab, under names that change with
//! their content.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// A file that pages load.
pub(crate) struct Asset {
    /// The last part of its path.
    pub(crate) name: String,
    kind: &'static str,
    text: &'static str,
}

pub(crate) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("app", "css", "text/css; charset=utf-8", include_str!("../assets/app.css")));
pub(crate) static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("app", "js", "text/javascript; charset=utf-8", include_str!("../assets/app.js")));
pub(crate) static MARK: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("mark", "svg", "image/svg+xml", include_str!("../assets/mark.svg")));

impl Asset {
    fn new(stem: &str, extension: &str, kind: &'static str, text: &'static str) -> Self {
        Self { name: format!("{stem}-{:016x}.{extension}", hash(text.as_bytes())), kind, text }
    }
}

/// Returns the FNV-1a hash: equal in every process, unlike that of the standard library's maps.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Answers with an asset. Its name is new whenever it changes, so browsers keep it.
pub(crate) async fn serve(Path(name): Path<String>) -> Response {
    let known = [&*STYLE, &*SCRIPT, &*MARK].into_iter().find(|asset| asset.name == name);
    match known {
        None => Problem::no_page().into_response(),
        Some(asset) => {
            let headers =
                [(header::CONTENT_TYPE, asset.kind), (header::CACHE_CONTROL, "public, max-age=31536000, immutable")];
            (headers, asset.text).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_are_small_and_load_nothing_from_elsewhere() {
        assert!(SCRIPT.text.len() <= 30_000, "{} bytes of script", SCRIPT.text.len());
        assert!(STYLE.text.len() <= 40_000, "{} bytes of style", STYLE.text.len());
        for asset in [&*STYLE, &*SCRIPT] {
            for word in ["http://", "https://", "@import", "eval(", "innerHTML", "style="] {
                assert!(!asset.text.contains(word), "{} has {word}", asset.name);
            }
        }
    }

    #[test]
    fn a_name_changes_with_the_content() {
        let of = |text| Asset::new("app", "css", "text/css", text).name;
        assert_ne!(of("a"), of("b"));
        assert_eq!(of("a"), of("a"));
    }
}

//! Icons: one path or two, on a square of 14.

use maud::{Markup, PreEscaped, html};

/// The drawing of an icon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Icon(&'static str);

impl Icon {
    pub(crate) const OVERVIEW: Self = Self(
        r#"<path d="M2 12V7.5M6 12V2.5M10 12V5.5" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" fill="none"/>"#,
    );
    pub(crate) const RUNS: Self =
        Self(r#"<path d="M2 3.5h10M2 7h7M2 10.5h4" stroke="currentColor" stroke-width="1.5" stroke-linecap="round"/>"#);
    pub(crate) const APPROVALS: Self = Self(
        r#"<path d="M2.2 8.2v2.3c0 .7.6 1.3 1.3 1.3h7c.7 0 1.3-.6 1.3-1.3V8.2M4 5.2L6.4 7.6 11 2.6" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"/>"#,
    );
    pub(crate) const FAILURES: Self = Self(
        r#"<path d="M7 2L12.6 11.6H1.4z" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linejoin="round"/><path d="M7 5.8v2.6M7 10h.01" stroke="currentColor" stroke-width="1.5" stroke-linecap="round"/>"#,
    );
    pub(crate) const WORKFLOWS: Self = Self(
        r#"<circle cx="3.4" cy="3.4" r="1.7" fill="none" stroke="currentColor" stroke-width="1.4"/><circle cx="10.6" cy="10.6" r="1.7" fill="none" stroke="currentColor" stroke-width="1.4"/><path d="M3.4 5.2v3c0 1.4 1 2.4 2.4 2.4h3" fill="none" stroke="currentColor" stroke-width="1.4"/>"#,
    );
    pub(crate) const FLOWS: Self = Self(
        r#"<rect x="4.6" y="1.6" width="4.8" height="3.4" rx="1" fill="none" stroke="currentColor" stroke-width="1.4"/><rect x="1.4" y="9" width="4.4" height="3.4" rx="1" fill="none" stroke="currentColor" stroke-width="1.4"/><rect x="8.2" y="9" width="4.4" height="3.4" rx="1" fill="none" stroke="currentColor" stroke-width="1.4"/><path d="M7 5.2v1.9M3.6 8.8V7.1h6.8v1.7" fill="none" stroke="currentColor" stroke-width="1.4"/>"#,
    );
    pub(crate) const QUEUES: Self = Self(
        r#"<path d="M2 4l5-2.2L12 4 7 6.2 2 4zM2.4 7.2L7 9.2l4.6-2M2.4 10.2L7 12.2l4.6-2" fill="none" stroke="currentColor" stroke-width="1.35" stroke-linejoin="round" stroke-linecap="round"/>"#,
    );
    pub(crate) const SCHEDULES: Self = Self(
        r#"<rect x="2" y="2.8" width="10" height="9.2" rx="2" fill="none" stroke="currentColor" stroke-width="1.4"/><path d="M2 5.9h10M4.8 1.6v2M9.2 1.6v2" stroke="currentColor" stroke-width="1.4" stroke-linecap="round"/>"#,
    );
    pub(crate) const WORKERS: Self = Self(
        r#"<rect x="2" y="2.4" width="10" height="3.6" rx="1.2" fill="none" stroke="currentColor" stroke-width="1.4"/><rect x="2" y="8" width="10" height="3.6" rx="1.2" fill="none" stroke="currentColor" stroke-width="1.4"/><path d="M4.4 4.2h.01M4.4 9.8h.01" stroke="currentColor" stroke-width="1.6" stroke-linecap="round"/>"#,
    );
    pub(crate) const BULK: Self = Self(
        r#"<path d="M2 3.4l1 1 1.8-2M2 7.2l1 1 1.8-2M2 11l1 1 1.8-2M7 3.4h5M7 7.2h5M7 11h5" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round"/>"#,
    );
    pub(crate) const AUDIT: Self = Self(
        r#"<path d="M3 2.2h5.4L11 4.8v7H3z" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linejoin="round"/><path d="M5 7h4M5 9.4h4" stroke="currentColor" stroke-width="1.3" stroke-linecap="round"/>"#,
    );
    pub(crate) const SYSTEM: Self = Self(
        r#"<circle cx="7" cy="7" r="1.9" fill="none" stroke="currentColor" stroke-width="1.4"/><path d="M7 1.8v1.5M7 10.7v1.5M1.8 7h1.5M10.7 7h1.5M3.3 3.3l1.1 1.1M9.6 9.6l1.1 1.1M10.7 3.3L9.6 4.4M4.4 9.6l-1.1 1.1" stroke="currentColor" stroke-width="1.4" stroke-linecap="round"/>"#,
    );
    pub(crate) const SEARCH: Self = Self(
        r#"<circle cx="6.2" cy="6.2" r="4" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="M9.3 9.3l3 3" stroke="currentColor" stroke-width="1.5" stroke-linecap="round"/>"#,
    );
    pub(crate) const THEME: Self = Self(
        r#"<path d="M11.6 8.4A5 5 0 1 1 5.6 2.4a4 4 0 0 0 6 6z" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linejoin="round"/>"#,
    );
    pub(crate) const RUNNING: Self = Self(
        r#"<circle cx="7" cy="7" r="5.5" fill="none" stroke="currentColor" stroke-opacity=".28" stroke-width="1.5"/><path d="M7 1.5a5.5 5.5 0 0 1 5.5 5.5" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" class="spin"/>"#,
    );
    pub(crate) const PENDING: Self = Self(
        r#"<circle cx="7" cy="7" r="5.5" fill="none" stroke="currentColor" stroke-width="1.5" stroke-dasharray="1.7 1.75"/>"#,
    );
    pub(crate) const WAITING: Self = Self(
        r#"<circle cx="7" cy="7" r="5.5" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="M7 4.2V7l1.8 1.3" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round"/>"#,
    );
    pub(crate) const RETRY: Self = Self(
        r#"<path d="M11.6 5.2A5 5 0 1 0 12 7.6" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round"/><path d="M12 2.6v2.8H9.2" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"/>"#,
    );
    pub(crate) const FAILED: Self = Self(
        r#"<circle cx="7" cy="7" r="6.2" fill="currentColor"/><path d="M5 5l4 4M9 5L5 9" class="cut" stroke-width="1.5" stroke-linecap="round"/>"#,
    );
    pub(crate) const SUCCEEDED: Self = Self(
        r#"<circle cx="7" cy="7" r="6.2" fill="currentColor"/><path d="M4.4 7.2l1.8 1.8 3.5-3.8" fill="none" class="cut" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"/>"#,
    );
    pub(crate) const CANCELED: Self = Self(
        r#"<circle cx="7" cy="7" r="5.5" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="M3.6 10.4l6.8-6.8" stroke="currentColor" stroke-width="1.5"/>"#,
    );
    pub(crate) const PAUSED: Self = Self(
        r#"<circle cx="7" cy="7" r="6.2" fill="currentColor"/><path d="M5.6 5v4M8.4 5v4" class="cut" stroke-width="1.5" stroke-linecap="round"/>"#,
    );
    pub(crate) const STUCK: Self = Self(
        r#"<circle cx="7" cy="7" r="5.5" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="M4.3 7h5.4" stroke="currentColor" stroke-width="1.6" stroke-linecap="round"/>"#,
    );
    pub(crate) const PAUSE: Self =
        Self(r#"<path d="M4.8 3v8M9.2 3v8" stroke="currentColor" stroke-width="1.6" stroke-linecap="round"/>"#);
    pub(crate) const CHEVRON: Self = Self(
        r#"<path d="M5 3.5L8.5 7 5 10.5" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"/>"#,
    );
    pub(crate) const COPY: Self = Self(
        r#"<rect x="4.4" y="4.4" width="7.2" height="7.2" rx="1.6" fill="none" stroke="currentColor" stroke-width="1.3"/><path d="M2.4 9.2V4c0-.9.7-1.6 1.6-1.6h5.2" fill="none" stroke="currentColor" stroke-width="1.3" stroke-linecap="round"/>"#,
    );
    pub(crate) const SIGNAL: Self = Self(
        r#"<path d="M3.4 9.6V6.4a3.6 3.6 0 0 1 7.2 0v3.2l.9 1H2.5l.9-1z" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linejoin="round"/><path d="M6 12.2h2" stroke="currentColor" stroke-width="1.4" stroke-linecap="round"/>"#,
    );

    /// Returns the icon as a drawing that readers of the screen skip: its word stands beside it.
    pub(crate) fn draw(self) -> Markup {
        html! { svg.i viewBox="0 0 14 14" aria-hidden="true" { (PreEscaped(self.0)) } }
    }

    /// Returns the icon as a part of another drawing, with its left upper corner at a place.
    pub(crate) fn draw_at(self, x: u8, y: u8) -> Markup {
        html! { svg x=(x) y=(y) width="14" height="14" viewBox="0 0 14 14" { (PreEscaped(self.0)) } }
    }
}

//! Looks at the source again and again and keeps the newest rendering for all open pages. A source that fails is shown
//! as failing; the teller goes on.

use super::source::{Shown, Source};
use crate::svg::escape;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A migration is to be seen within a second of its event.
const EVERY: Duration = Duration::from_millis(400);
/// A page that was just opened is to show something at once.
const NEWCOMERS_EVERY: Duration = Duration::from_millis(20);

/// Tells as long as a page can still be opened.
pub(super) async fn tell(source: Arc<impl Source>, told: watch::Sender<Arc<str>>) {
    while !told.is_closed() {
        // Nothing is asked while no page is open.
        let is_watched = told.receiver_count() > 1;
        if is_watched {
            let shown = source.look().await.unwrap_or_else(|problem| Shown {
                job: None,
                nodes: Vec::new(),
                cluster: String::new(),
                html: format!("<p role=\"alert\">{}</p>", escape(&problem)),
            });
            let text = serde_json::to_string(&shown).unwrap_or_default();
            told.send_if_modified(|before| {
                let is_new = **before != *text;
                if is_new {
                    *before = text.into();
                }
                is_new
            });
        }
        tokio::time::sleep(if is_watched { EVERY } else { NEWCOMERS_EVERY }).await;
    }
}

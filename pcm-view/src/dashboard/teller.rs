//! Looks at the source again and again and keeps the newest rendering of each job that a page shows, for all pages that
//! show it. A source that fails is shown as failing; the teller goes on. Nothing is asked for a job that no page shows.

use super::cluster::Drawn;
use super::source::{Shown, Source, alert};
use pcm_proto::ids::JobId;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// A migration is to be seen within a second of its event.
const EVERY: Duration = Duration::from_millis(400);

/// What was told last; empty before the first look.
type Told = watch::Sender<Arc<str>>;

/// One teller for each job that pages show, and for pages that chose none.
#[derive(Default)]
pub(super) struct Tellers {
    told: Mutex<BTreeMap<Option<JobId>, Told>>,
}

impl Tellers {
    /// What is told of a job, from now on.
    pub(super) fn hear(self: &Arc<Self>, source: &Arc<impl Source>, job: Option<JobId>) -> watch::Receiver<Arc<str>> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match told.entry(job) {
            Entry::Occupied(one) => one.get().subscribe(),
            Entry::Vacant(none) => {
                let (sender, receiver) = watch::channel(Arc::from(""));
                none.insert(sender.clone());
                tokio::spawn(tell(Arc::clone(self), Arc::clone(source), job, sender));
                receiver
            }
        }
    }

    /// Whether no page hears it any more; it is forgotten then.
    fn is_over(&self, job: Option<JobId>) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = told.get(&job).is_none_or(|one| one.receiver_count() == 0);
        if is_over {
            told.remove(&job);
        }
        is_over
    }
}

/// Tells as long as a page hears it.
async fn tell(tellers: Arc<Tellers>, source: Arc<impl Source>, job: Option<JobId>, told: Told) {
    while !tellers.is_over(job) {
        let shown = source.look(job).await.unwrap_or_else(|problem| Shown {
            job: None,
            nodes: Vec::new(),
            cluster: Drawn::default(),
            html: alert(&problem),
        });
        let text = serde_json::to_string(&shown).unwrap_or_default();
        told.send_if_modified(|before| {
            let is_new = **before != *text;
            if is_new {
                *before = text.into();
            }
            is_new
        });
        tokio::time::sleep(EVERY).await;
    }
}

//! Asks the daemon for parts of images without ever waiting: what is not there yet is asked for, and the taking is
//! begun anew when it has come. One request is under way at a time.

use crate::{
    park::{self, RestoreError, Source},
    start::Started,
};
use pcm_core::parked::BlockSet;
use pcm_proto::{
    app::AppToDaemon,
    ids::Rank,
    parked::{Asked, BlockRun, RestoreAnswer, RestoreAsk},
    reconfiguration::Attempt,
};
use std::fs::File;

/// See the file head.
#[derive(Debug)]
pub(crate) struct Patient {
    started: &'static Started,
    attempt: Attempt,
    asked: Option<(Asked, Vec<BlockRun>)>,
    come: Vec<(Rank, Vec<BlockRun>, File)>,
}

impl Patient {
    pub(crate) fn new(started: &'static Started, attempt: Attempt) -> Self {
        Self {
            started,
            attempt,
            asked: None,
            come: Vec::new(),
        }
    }

    /// Takes what was heard; says whether anything came. An error when something cannot be had.
    pub(crate) fn hear(&mut self) -> Result<bool, RestoreError> {
        let mut has_come = false;
        while let Some((answer, file)) = self.started.restore_answer() {
            match answer {
                RestoreAnswer::Image { attempt, asked, .. } if attempt == Some(self.attempt) => {
                    let taken = self.asked.take_if(|(last, _)| *last == asked);
                    if let (Some((asked, runs)), Some(file)) = (taken, file) {
                        self.come.push((asked.rank, runs, File::from(file)));
                        has_come = true;
                    }
                }
                RestoreAnswer::Lost { attempt, asked, reason } if attempt == Some(self.attempt) => {
                    let rank = asked.rank.0;
                    return Err(RestoreError::Lost { rank, reason });
                }
                RestoreAnswer::Image { .. } | RestoreAnswer::Lost { .. } | RestoreAnswer::Plan { .. } => {}
            }
        }
        Ok(has_come)
    }
}

impl Source for Patient {
    fn blocks(&mut self, rank: Rank, blocks: &BlockSet) -> Result<File, RestoreError> {
        let runs: Vec<BlockRun> = blocks.runs().collect();
        let come = self.come.iter().find(|(of, known, _)| *of == rank && *known == runs);
        if let Some((_, _, file)) = come {
            return file.try_clone().map_err(RestoreError::Map);
        }
        let last = self.asked.as_ref();
        if last.is_none_or(|(asked, known)| asked.rank != rank || *known != runs) {
            let asked = park::request(rank);
            let ask = AppToDaemon::Restore(RestoreAsk::Blocks {
                asked,
                runs: runs.clone(),
            });
            // One that is not heard is not answered: the data travels at the meeting.
            _ = self.started.channel.send(&ask);
            self.asked = Some((asked, runs));
        }
        Err(RestoreError::Awaited)
    }
}

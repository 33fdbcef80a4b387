//! What a key means. Nothing is ordered without a yes.

use super::state::{Asked, Line, Pane, State};
use crate::commands::Order;
use pcm_proto::control::NodeState;
use pcm_proto::ids::NodeName;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Longest text that can be typed.
const TYPED_MAX: usize = 64;
/// Rows of a page key.
const PAGE: isize = 10;

/// What follows from a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing but what is shown.
    Shown,
    Quit,
    /// This is to be done.
    Do(Order),
}

pub(super) fn on_key(state: &mut State, key: KeyEvent) -> Outcome {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return Outcome::Quit;
    }
    match std::mem::replace(&mut state.line, Line::Idle(String::new())) {
        Line::Idle(_) => on_idle(state, key.code),
        Line::Filter => {
            on_filter(state, key.code);
            Outcome::Shown
        }
        Line::Ask { asked, mut typed } => {
            state.line = match key.code {
                KeyCode::Esc => Line::Idle("not done".to_owned()),
                KeyCode::Enter => answered(state, asked, &typed),
                code => {
                    edit(&mut typed, code);
                    Line::Ask { asked, typed }
                }
            };
            Outcome::Shown
        }
        Line::Confirm(order) => {
            if matches!(key.code, KeyCode::Char('y' | 'Y')) {
                state.line = Line::Idle("in progress".to_owned());
                return Outcome::Do(order);
            }
            state.line = Line::Idle("not done".to_owned());
            Outcome::Shown
        }
    }
}

fn on_idle(state: &mut State, code: KeyCode) -> Outcome {
    match code {
        KeyCode::Char('q') => return Outcome::Quit,
        KeyCode::Tab => {
            state.pane = match state.pane {
                Pane::Jobs if !state.is_map => Pane::Ranks,
                Pane::Jobs => Pane::Nodes,
                Pane::Ranks => Pane::Nodes,
                Pane::Nodes => Pane::Jobs,
            }
        }
        KeyCode::Down | KeyCode::Char('j') => state.step(1),
        KeyCode::Up | KeyCode::Char('k') => state.step(-1),
        KeyCode::PageDown => state.step(PAGE),
        KeyCode::PageUp => state.step(-PAGE),
        KeyCode::Char('s') => state.sort_next(),
        KeyCode::Char('r') => state.is_reversed = !state.is_reversed,
        KeyCode::Char('v') => {
            state.is_map = !state.is_map;
            state.pane = if state.is_map { Pane::Nodes } else { Pane::Ranks };
        }
        KeyCode::Char('/') => state.line = Line::Filter,
        KeyCode::Esc => state.filter.clear(),
        KeyCode::Char('m') => migrate(state),
        KeyCode::Char('n') => resize(state),
        KeyCode::Char('d') => drain(state),
        KeyCode::Char('c') => {
            state.line = match state.job {
                Some(job) => Line::Confirm(Order::Checkpoint { job }),
                None => Line::Idle("no job runs".to_owned()),
            }
        }
        _ => {}
    }
    Outcome::Shown
}

/// The order that a typed answer makes whole, to be confirmed.
fn answered(state: &State, asked: Asked, typed: &str) -> Line {
    let order = match asked {
        Asked::Target { job, rank } => match NodeName::new(typed) {
            Ok(to) if state.look().nodes.iter().any(|node| node.name == to) => Ok(Order::Migrate { job, rank, to }),
            _ => Err(format!("there is no node {typed:?}")),
        },
        Asked::Size { job, now } => match typed.parse::<u32>() {
            Ok(to) if to > now => Ok(Order::Expand { job, to }),
            Ok(to) if (1..now).contains(&to) => Ok(Order::Shrink { job, to }),
            Ok(to) if to == now => Err(format!("job {job} has {now} ranks already")),
            _ => Err(format!("{typed:?} is not a number of ranks")),
        },
    };
    order.map_or_else(Line::Idle, Line::Confirm)
}

fn resize(state: &mut State) {
    let size = state.look().jobs.iter().find(|job| Some(job.job) == state.job);
    state.line = match size.map(|job| (job.job, job.size)) {
        Some((job, now)) => Line::Ask {
            asked: Asked::Size { job, now },
            typed: String::new(),
        },
        None => Line::Idle("no job runs".to_owned()),
    };
}

fn migrate(state: &mut State) {
    let place = state.chosen(Pane::Ranks);
    let rank = state.ranks().get(place).map(|rank| rank.rank);
    state.line = match (state.job, rank) {
        (Some(job), Some(rank)) if state.pane == Pane::Ranks => Line::Ask {
            asked: Asked::Target { job, rank },
            typed: String::new(),
        },
        _ => Line::Idle("select a rank first: tab moves to the ranks".to_owned()),
    };
}

fn drain(state: &mut State) {
    let place = state.chosen(Pane::Nodes);
    let node = state.nodes().get(place).map(|node| (node.name.clone(), node.state));
    let back = Vec::new();
    state.line = match node {
        Some((node, NodeState::Draining)) if state.pane == Pane::Nodes => Line::Confirm(Order::Undrain { node, back }),
        Some((node, _)) if state.pane == Pane::Nodes => Line::Confirm(Order::Drain { node }),
        _ => Line::Idle("select a node first: tab moves to the nodes".to_owned()),
    };
}

fn on_filter(state: &mut State, code: KeyCode) {
    match code {
        KeyCode::Enter => {}
        KeyCode::Esc => state.filter.clear(),
        code => {
            edit(&mut state.filter, code);
            state.line = Line::Filter;
        }
    }
}

fn edit(text: &mut String, code: KeyCode) {
    match code {
        KeyCode::Backspace => drop(text.pop()),
        KeyCode::Char(letter) if text.len() < TYPED_MAX => text.push(letter),
        _ => {}
    }
}

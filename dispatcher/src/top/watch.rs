//! The loop of `top`: keys from the terminal, looks from a daemon, orders over a link of their own, so that a slow one
//! holds nothing up. Leaves the terminal as it was.

use super::draw::draw;
use super::keys::{Outcome, on_key};
use super::state::{Line, Look, State};
use crate::cluster::ClusterDir;
use crate::commands::Order;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::{courtesy, lookup};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::ids::JobId;
use pcm_proto::refusal::{JOB_ENDED, UNKNOWN_JOB};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How often the thread that reads keys looks whether it is to end.
const KEY_POLL: Duration = Duration::from_millis(100);
/// Keys that may wait; a person types slower.
const KEYS_MAX: usize = 64;
enum News {
    Key(KeyEvent),
    Resized,
    Look(Result<Look, Failure>),
    Done(String),
}

/// Watches until the person has seen enough.
pub(crate) async fn watch(cluster: &ClusterDir, every: Duration) -> Result<(), Failure> {
    courtesy::give_way();
    // An early failure is told on a terminal that was not touched.
    let link = Link::open(cluster).await?;
    let (news, mut heard) = mpsc::channel(KEYS_MAX);
    let is_over = Arc::new(AtomicBool::new(false));
    let keys = std::thread::spawn({
        let (news, is_over) = (news.clone(), Arc::clone(&is_over));
        move || read_keys(&news, &is_over)
    });
    let mut terminal = ratatui::try_init().map_err(|error| Failure::system(format!("the terminal: {error}")))?;
    let outcome = run(&mut terminal, cluster, link, every, news, &mut heard).await;
    ratatui::restore();
    is_over.store(true, Relaxed);
    drop(heard);
    _ = keys.join();
    outcome
}

fn read_keys(news: &mpsc::Sender<News>, is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        let sent = match event::poll(KEY_POLL) {
            Ok(false) => continue,
            Ok(true) => match event::read() {
                Ok(Event::Key(key)) if key.kind == KeyEventKind::Press => news.blocking_send(News::Key(key)),
                Ok(Event::Resize(..)) => news.blocking_send(News::Resized),
                Ok(_) => continue,
                Err(_) => return,
            },
            Err(_) => return,
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn run(
    terminal: &mut DefaultTerminal,
    cluster: &ClusterDir,
    link: Link,
    every: Duration,
    news: mpsc::Sender<News>,
    heard: &mut mpsc::Receiver<News>,
) -> Result<(), Failure> {
    let mut state = State::new();
    let (wanted, wants) = tokio::sync::watch::channel(None);
    let looking = tokio::spawn(look_on(cluster.clone(), link, every, wants, news.clone()));
    loop {
        terminal
            .draw(|frame| draw(frame, &state))
            .map_err(|error| Failure::system(format!("the terminal: {error}")))?;
        match heard.recv().await {
            None | Some(News::Resized) => {}
            Some(News::Look(Ok(look))) => state.on_look(look),
            Some(News::Look(Err(failure))) => state.line = Line::Idle(failure.message),
            Some(News::Done(text)) => state.line = Line::Idle(text),
            Some(News::Key(key)) => match on_key(&mut state, key) {
                Outcome::Shown => {}
                Outcome::Quit => break,
                Outcome::Do(order) => drop(tokio::spawn(carry_out(cluster.clone(), order, news.clone()))),
            },
        }
        wanted.send_if_modified(|job| {
            let is_new = *job != state.job;
            *job = state.job;
            is_new
        });
    }
    looking.abort();
    Ok(())
}

/// Looks again and again, at once when another job is chosen.
async fn look_on(
    cluster: ClusterDir,
    link: Link,
    every: Duration,
    mut wants: tokio::sync::watch::Receiver<Option<JobId>>,
    news: mpsc::Sender<News>,
) {
    let since = Instant::now();
    let mut link = Some(link);
    loop {
        let job = *wants.borrow_and_update();
        let look = match &mut link {
            Some(link) => look(link, job, since).await,
            None => match Link::open(&cluster).await {
                Ok(opened) => look(link.insert(opened), job, since).await,
                Err(failure) => Err(failure),
            },
        };
        if look.as_ref().is_err_and(crate::link::is_lost) {
            link = None;
        }
        if news.send(News::Look(look)).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            changed = wants.changed() => if changed.is_err() { return },
        }
    }
}

async fn look(link: &mut Link, job: Option<JobId>, since: Instant) -> Result<Look, Failure> {
    let jobs = lookup::jobs(link).await?;
    let nodes = match link.ask(ControlToDaemon::Nodes, ASK_DEADLINE).await? {
        DaemonToControl::Nodes(nodes) => nodes,
        other => return Err(Failure::unexpected("Nodes", &other)),
    };
    let ranks = match job {
        Some(job) => match link.ask(ControlToDaemon::Ps { job }, ASK_DEADLINE).await {
            Ok(DaemonToControl::Ps { ranks, .. }) => ranks,
            Ok(other) => return Err(Failure::unexpected("Ps", &other)),
            // It ended a moment ago.
            Err(failure) if [JOB_ENDED, UNKNOWN_JOB].contains(&failure.code.as_str()) => Vec::new(),
            Err(failure) => return Err(failure),
        },
        None => Vec::new(),
    };
    let at = since.elapsed().as_secs_f64();
    Ok(Look { at, jobs, nodes, ranks })
}

async fn carry_out(cluster: ClusterDir, order: Order, news: mpsc::Sender<News>) {
    let text = match order_once(&cluster, order).await {
        Ok(text) => text,
        Err(failure) => failure.message,
    };
    // Whoever ordered has left when nobody hears it.
    _ = news.send(News::Done(text)).await;
}

async fn order_once(cluster: &ClusterDir, order: Order) -> Result<String, Failure> {
    let mut link = Link::open(cluster).await?;
    order.carry_out(&mut link, "pcmctl top").await
}

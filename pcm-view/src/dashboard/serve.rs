//! The listener: on loopback only, few connections, each request read with limits and a deadline. Connections that
//! have not shown the token have places of their own, of which the oldest makes room: they keep no browser out.

use super::cluster::STYLE;
use super::http::{self, HEAD_BYTES_MAX, Refused, Request, Wanted};
use super::source::{Plan, Source};
use super::teller::Tellers;
use crate::report::document;
use serde::Serialize;
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

/// Admitted connections at a time: a few browser tabs.
const ADMITTED_MAX: usize = 32;
/// Connections at a time that have not shown the token. A browser shows it at once, and at 2,000 others a second it has
/// 32 ms.
const UNKNOWN_MAX: usize = 64;
/// A request has arrived within this time.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
/// A reader that takes nothing for this long has gone.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
/// A stream says at least so often that it lives.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

const RANDOMNESS: &str = "/dev/urandom";

const SCRIPT: &str = concat!(include_str!("page.js"), include_str!("cluster.js"));
const CONTROLS: &str = "\
<header><p><span id=\"state\" role=\"status\" aria-live=\"polite\">Connecting.</span> \
<button id=\"undo\" hidden>Undo</button></p></header>\
<dialog id=\"plan\"><p></p><div><button value=\"no\">Cancel</button><button value=\"go\">Do it</button></div></dialog>\
<section id=\"cluster\"><h2>Cluster</h2><div class=\"jobs\"></div><div class=\"boxes\"></div></section>\
<details id=\"steer\"><summary>Steer</summary><datalist id=\"nodes\"></datalist><div class=\"forms\">\
<form data-act=\"migrate\"><label>Rank<br><input name=\"rank\" type=\"number\" min=\"0\" required></label>\
<label>To node<br><input name=\"to\" list=\"nodes\" required autocomplete=\"off\"></label>\
<button>Migrate</button></form>\
<form data-act=\"expand\"><label>More ranks<br><input name=\"to\" type=\"number\" min=\"1\" required></label>\
<button>Expand</button></form>\
<form data-act=\"shrink\"><label>Fewer ranks<br><input name=\"to\" type=\"number\" min=\"1\" required></label>\
<button>Shrink</button></form>\
<form data-act=\"drain\"><label>Node<br><input name=\"node\" list=\"nodes\" required autocomplete=\"off\"></label>\
<button>Drain</button></form>\
<form data-act=\"checkpoint\"><button>Checkpoint</button></form>\
</div></details><main id=\"story\"><p>Asking the cluster.</p></main>";

/// The page cannot be served; nothing was started.
#[derive(Debug)]
pub enum ServeError {
    Listen { address: SocketAddr, source: io::Error },
    NoRandomness { source: io::Error },
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, source } => write!(f, "cannot listen on {address}: {source}"),
            Self::NoRandomness { source } => write!(f, "cannot read {RANDOMNESS}: {source}"),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen { source, .. } | Self::NoRandomness { source } => Some(source),
        }
    }
}

/// How an order went, or what it would do, for the page.
#[derive(Serialize)]
struct Outcome {
    is_done: bool,
    text: String,
    undo: Option<serde_json::Value>,
}

impl Outcome {
    fn json(of: Result<Plan, String>) -> String {
        let (is_done, Plan { text, undo }) = match of {
            Ok(plan) => (true, plan),
            Err(text) => (false, Plan { text, undo: None }),
        };
        serde_json::to_string(&Self { is_done, text, undo }).unwrap_or_default()
    }
}

struct Shared<S> {
    source: Arc<S>,
    token: String,
    authority: String,
    tellers: Arc<Tellers>,
}

/// A page that has its address and is not served yet.
pub struct Server {
    listener: TcpListener,
    token: String,
    authority: String,
}

impl Server {
    /// Listens on loopback; port 0 lets the system choose.
    pub async fn bind(port: u16) -> Result<Self, ServeError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let cannot = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(cannot)?;
        Ok(Self {
            authority: listener.local_addr().map_err(cannot)?.to_string(),
            token: random(16).map_err(|source| ServeError::NoRandomness { source })?,
            listener,
        })
    }

    /// Its address, with the token that admits.
    pub fn address(&self) -> String {
        format!("http://{}/?token={}", self.authority, self.token)
    }

    /// Serves the page until the future is dropped.
    pub async fn run(self, source: impl Source) {
        let shared = Arc::new(Shared {
            source: Arc::new(source),
            token: self.token,
            authority: self.authority,
            tellers: Arc::default(),
        });
        let admitted = Arc::new(Semaphore::new(ADMITTED_MAX));
        let mut unknown: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                // Out of descriptors, as a rule; they come back when connections end.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            unknown.retain(|reading| !reading.is_finished());
            if unknown.len() >= UNKNOWN_MAX
                && let Some(oldest) = unknown.pop_front()
            {
                oldest.abort();
            }
            let reading = tokio::spawn(admit(stream, Arc::clone(&shared), Arc::clone(&admitted)));
            unknown.push_back(reading.abort_handle());
        }
    }
}

/// Reads a request; whoever may have an answer leaves the places of those who have not shown the token.
async fn admit(mut stream: TcpStream, shared: Arc<Shared<impl Source>>, admitted: Arc<Semaphore>) {
    let Ok(Ok(read)) = tokio::time::timeout(REQUEST_WITHIN, read_request(&mut stream, &shared)).await else {
        return;
    };
    match read {
        Err(refused) => _ = write(&mut stream, &http::refusal(refused)).await,
        Ok((wanted, body)) => {
            // Beyond the limit a connection is closed at once.
            let Ok(place) = admitted.try_acquire_owned() else {
                return;
            };
            tokio::spawn(async move {
                // A browser that went away is no failure of the page's.
                _ = answer(stream, wanted, body, &shared).await;
                drop(place);
            });
        }
    }
}

fn random(bytes: usize) -> io::Result<String> {
    let mut buffer = vec![0; bytes];
    File::open(RANDOMNESS)?.read_exact(&mut buffer)?;
    Ok(buffer.iter().map(|byte| format!("{byte:02x}")).collect())
}

async fn answer(mut stream: TcpStream, wanted: Wanted, body: Vec<u8>, shared: &Shared<impl Source>) -> io::Result<()> {
    match wanted {
        Wanted::Page => {
            let nonce = random(16)?;
            let body = format!("<style>{STYLE}</style>{CONTROLS}<script nonce=\"{nonce}\">{SCRIPT}</script>");
            write(&mut stream, &http::answer("text/html", &nonce, &document("pcm", &body))).await
        }
        Wanted::Act => {
            let outcome = shared
                .source
                .carry_out(&body)
                .await
                .map(|text| Plan { text, undo: None });
            write(
                &mut stream,
                &http::answer("application/json", "", &Outcome::json(outcome)),
            )
            .await
        }
        Wanted::Plan => {
            let planned = shared.source.plan(&body).await;
            write(
                &mut stream,
                &http::answer("application/json", "", &Outcome::json(planned)),
            )
            .await
        }
        Wanted::Metrics(format) => {
            let answer = match shared.source.metrics(format).await {
                Ok(text) => http::answer(format.kind(), "", &text),
                Err(problem) => http::unavailable(&problem),
            };
            write(&mut stream, &answer).await
        }
        Wanted::Stream(job) => stream_to(&mut stream, shared.tellers.hear(&shared.source, job)).await,
    }
}

type Read = Result<(Wanted, Vec<u8>), Refused>;

/// A request that is not admitted is not read to its end.
async fn read_request<S>(stream: &mut TcpStream, shared: &Shared<S>) -> io::Result<Read> {
    let mut bytes = Vec::new();
    let mut piece = [0; 2048];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        let length = stream.read(&mut piece).await?;
        if length == 0 || bytes.len() + length > HEAD_BYTES_MAX {
            return Ok(Err(Refused::BadRequest));
        }
        bytes.extend_from_slice(&piece[..length]);
    };
    let admitted = std::str::from_utf8(&bytes[..end])
        .map_err(|_| Refused::BadRequest)
        .and_then(Request::parse)
        .and_then(|request| Ok((request.admit(&shared.token, &shared.authority)?, request.body_length()?)));
    let (wanted, length) = match admitted {
        Ok(admitted) => admitted,
        Err(refused) => return Ok(Err(refused)),
    };
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        let read = stream.read(&mut piece).await?;
        if read == 0 {
            return Ok(Err(Refused::BadRequest));
        }
        body.extend_from_slice(&piece[..read]);
    }
    body.truncate(length);
    Ok(Ok((wanted, body)))
}

async fn stream_to(stream: &mut TcpStream, mut told: watch::Receiver<Arc<str>>) -> io::Result<()> {
    write(stream, &http::stream()).await?;
    told.mark_changed();
    loop {
        match tokio::time::timeout(ALIVE_EVERY, told.changed()).await {
            Ok(Ok(())) => {
                let text = Arc::clone(&told.borrow_and_update());
                if !text.is_empty() {
                    write(stream, &format!("data: {text}\n\n")).await?;
                }
            }
            Ok(Err(_)) => return Ok(()),
            Err(_) => write(stream, ": alive\n\n").await?,
        }
    }
}

async fn write(stream: &mut TcpStream, text: &str) -> io::Result<()> {
    match tokio::time::timeout(WRITE_WITHIN, stream.write_all(text.as_bytes())).await {
        Ok(written) => written,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

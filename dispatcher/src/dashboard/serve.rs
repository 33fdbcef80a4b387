//! The listener: on loopback only, few connections, each request read with limits and a deadline.

use super::act;
use super::http::{self, HEAD_BYTES_MAX, Refused, Request, Wanted};
use super::teller::{self, Source};
use crate::courtesy;
use crate::failure::Failure;
use crate::view::document;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// Connections at a time: a few browser tabs.
const CONNECTIONS_MAX: usize = 32;
/// A request has arrived within this time.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
/// A reader that takes nothing for this long has gone.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
/// A stream says at least so often that it lives.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

const SCRIPT: &str = include_str!("page.js");
const CONTROLS: &str = "\
<header><p id=\"state\" role=\"status\" aria-live=\"polite\">Connecting.</p></header>\
<details id=\"steer\"><summary>Steer</summary><datalist id=\"nodes\"></datalist><div class=\"forms\">\
<form data-act=\"migrate\"><label>Rank<br><input name=\"rank\" type=\"number\" min=\"0\" required></label>\
<label>To node<br><input name=\"to\" list=\"nodes\" required autocomplete=\"off\"></label><button>Migrate</button></form>\
<form data-act=\"expand\"><label>More ranks<br><input name=\"to\" type=\"number\" min=\"1\" required></label><button>Expand</button></form>\
<form data-act=\"shrink\"><label>Fewer ranks<br><input name=\"to\" type=\"number\" min=\"1\" required></label><button>Shrink</button></form>\
<form data-act=\"drain\"><label>Node<br><input name=\"node\" list=\"nodes\" required autocomplete=\"off\"></label><button>Drain</button></form>\
<form data-act=\"checkpoint\"><button>Checkpoint</button></form>\
</div></details><main id=\"story\"><p>Asking the cluster.</p></main>";

struct Shared {
    source: Source,
    token: String,
    authority: String,
    told: watch::Receiver<Arc<str>>,
}

/// Serves the page until the process ends; `ready` is told its address with the token.
pub(crate) async fn serve(
    source: Source,
    port: u16,
    ready: impl FnOnce(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    courtesy::give_way();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let cannot = |error: io::Error| Failure::system(format!("cannot listen on {address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let authority = listener.local_addr().map_err(cannot)?.to_string();
    let (tell, told) = watch::channel(Arc::from("{}"));
    let shared = Arc::new(Shared {
        source: source.clone(),
        token: random(16)?,
        authority,
        told,
    });
    tokio::spawn(teller::tell(source, tell));
    ready(&format!("http://{}/?token={}", shared.authority, shared.token))?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = listener.accept().await;
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, as a rule; they come back when connections end.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        // Beyond the limit a connection is closed at once.
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                // A browser that went away is no failure of the page's.
                _ = converse(stream, &shared).await;
                drop(place);
            });
        }
    }
}

fn random(bytes: usize) -> Result<String, Failure> {
    let source = Path::new("/dev/urandom");
    let mut buffer = vec![0; bytes];
    let read = std::fs::File::open(source).and_then(|mut file| io::Read::read_exact(&mut file, &mut buffer));
    read.map_err(|error| Failure::file("read", source, &error))?;
    Ok(buffer.iter().map(|byte| format!("{byte:02x}")).collect())
}

async fn converse(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let Ok(read) = tokio::time::timeout(REQUEST_WITHIN, read_request(&mut stream, shared)).await else {
        return Ok(());
    };
    match read? {
        Err(refused) => write(&mut stream, &http::refusal(refused)).await,
        Ok((Wanted::Page, _)) => {
            let nonce = random(16).map_err(|failure| io::Error::other(failure.message))?;
            let body = format!("{CONTROLS}<script nonce=\"{nonce}\">{SCRIPT}</script>");
            write(&mut stream, &http::answer("text/html", &nonce, &document("pcm", &body))).await
        }
        Ok((Wanted::Act, body)) => {
            let outcome = act::carry_out(&shared.source, &body).await;
            let text = serde_json::to_string(&outcome).unwrap_or_default();
            write(&mut stream, &http::answer("application/json", "", &text)).await
        }
        Ok((Wanted::Metrics, _)) => {
            let answer = match shared.source.metrics().await {
                Ok(text) => http::answer("text/plain; version=0.0.4", "", &text),
                Err(failure) => http::unavailable(&failure.message),
            };
            write(&mut stream, &answer).await
        }
        Ok((Wanted::Stream, _)) => stream_to(&mut stream, shared.told.clone()).await,
    }
}

type Read = Result<(Wanted, Vec<u8>), Refused>;

/// A request that is not admitted is not read to its end.
async fn read_request(stream: &mut TcpStream, shared: &Shared) -> io::Result<Read> {
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
                if &*text != "{}" {
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

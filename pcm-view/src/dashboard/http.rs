//! As much HTTP as one page needs, and who is admitted: only who knows the token, only under the address that was
//! given out, and orders only from the page itself. Pure. Nothing of a request is used before it is admitted.

use super::source::Format;
use pcm_proto::ids::JobId;
use std::collections::BTreeMap;

/// Longest head of a request; browsers send about one kilobyte.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Longest body; an order is below a hundred bytes.
pub(super) const BODY_BYTES_MAX: usize = 4 * 1024;

/// Headers that decide about admission or length: with two of one a request could mean either.
const ONE_ONLY: [&str; 6] = [
    "host",
    "origin",
    "authorization",
    "sec-fetch-site",
    "x-pcm-token",
    "content-length",
];

/// A request without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    query_token: Option<String>,
    query_job: Option<String>,
    headers: BTreeMap<String, String>,
}

/// What is wanted by a request that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Page,
    /// What a page shows that chose this job, or none.
    Stream(Option<JobId>),
    Metrics(Format),
    Plan,
    Act,
}

/// Status codes of refusals; their answers are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    BadRequest = 400,
    Forbidden = 403,
    NotFound = 404,
}

impl Request {
    /// Reads the head, up to and without its empty line.
    pub(super) fn parse(head: &str) -> Result<Self, Refused> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Refused::BadRequest);
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let named = |name: &str| {
            query
                .split('&')
                .find_map(|pair| pair.strip_prefix(name))
                .map(str::to_owned)
        };
        let mut headers = BTreeMap::new();
        for line in lines {
            let (name, value) = line.split_once(':').ok_or(Refused::BadRequest)?;
            let name = name.trim().to_ascii_lowercase();
            let is_one_only = ONE_ONLY.contains(&name.as_str());
            if headers.insert(name, value.trim().to_owned()).is_some() && is_one_only {
                return Err(Refused::BadRequest);
            }
        }
        Ok(Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query_token: named("token="),
            query_job: named("job="),
            headers,
        })
    }

    /// OpenMetrics for a reader that names it, as Prometheus does.
    fn format(&self) -> Format {
        match self.headers.get("accept") {
            Some(kinds) if kinds.contains("application/openmetrics-text") => Format::OpenMetrics,
            _ => Format::Prometheus,
        }
    }

    /// The job that a page chose.
    fn job(&self) -> Result<Option<JobId>, Refused> {
        let number = self.query_job.as_deref().map(str::parse).transpose();
        number.map(|job| job.map(JobId)).map_err(|_| Refused::BadRequest)
    }

    /// Bytes of the body.
    pub(super) fn body_length(&self) -> Result<usize, Refused> {
        match self.headers.get("content-length").map(|length| length.parse()) {
            None => Ok(0),
            Some(Ok(length)) if length <= BODY_BYTES_MAX => Ok(length),
            Some(_) => Err(Refused::BadRequest),
        }
    }

    /// What is wanted, if whoever asks may have it. `authority` is the host and port that was given out.
    pub(super) fn admit(&self, token: &str, authority: &str) -> Result<Wanted, Refused> {
        let header = |name: &str| self.headers.get(name).map(String::as_str);
        // A name that was made to point here is not the address that was given out.
        if header("host") != Some(authority) {
            return Err(Refused::Forbidden);
        }
        if header("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none")) {
            return Err(Refused::Forbidden);
        }
        let wanted = match (self.method.as_str(), self.path.as_str()) {
            ("GET", "/") => Wanted::Page,
            ("GET", "/stream") => Wanted::Stream(self.job()?),
            ("GET", "/metrics") => Wanted::Metrics(self.format()),
            ("POST", "/plan") => Wanted::Plan,
            ("POST", "/act") => Wanted::Act,
            _ => return Err(Refused::NotFound),
        };
        let bearer = || header("authorization").and_then(|words| words.strip_prefix("Bearer "));
        let given = match wanted {
            Wanted::Act | Wanted::Plan => header("x-pcm-token"),
            Wanted::Metrics(_) => self.query_token.as_deref().or_else(bearer),
            _ => self.query_token.as_deref(),
        };
        if !given.is_some_and(|given| is_same(given, token)) {
            return Err(Refused::Forbidden);
        }
        let is_from_page = header("origin").and_then(|origin| origin.strip_prefix("http://")) == Some(authority);
        if matches!(wanted, Wanted::Act | Wanted::Plan) && !is_from_page {
            return Err(Refused::Forbidden);
        }
        Ok(wanted)
    }
}

/// Takes as long for a wrong first letter as for a wrong last one.
fn is_same(given: &str, token: &str) -> bool {
    let differences = given.bytes().zip(token.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == token.len() && differences == 0
}

/// An answer with a body.
pub(super) fn answer(kind: &str, nonce: &str, body: &str) -> String {
    format!(
        "{}Content-Length: {}\r\n\r\n{body}",
        head("200 OK", kind, nonce),
        body.len()
    )
}

/// The beginning of a stream of events.
pub(super) fn stream() -> String {
    format!("{}\r\n", head("200 OK", "text/event-stream", ""))
}

/// An answer to who was admitted, when the cluster says nothing.
pub(super) fn unavailable(reason: &str) -> String {
    let head = head("503 Service Unavailable", "text/plain", "");
    format!("{head}Content-Length: {}\r\n\r\n{reason}", reason.len())
}

/// An answer that says nothing.
pub(super) fn refusal(refused: Refused) -> String {
    let status = match refused {
        Refused::BadRequest => "400 Bad Request",
        Refused::Forbidden => "403 Forbidden",
        Refused::NotFound => "404 Not Found",
    };
    format!("{}Content-Length: 0\r\n\r\n", head(status, "text/plain", ""))
}

fn head(status: &str, kind: &str, nonce: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nConnection: close\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; \
         connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::random::Random;

    const HERE: &str = "127.0.0.1:4000";

    fn ask(first: &str, headers: &[&str]) -> Result<Wanted, Refused> {
        let head = [&[first], headers].concat().join("\r\n");
        Request::parse(&head)?.admit("secret", HERE)
    }

    #[test]
    fn only_who_knows_the_token_is_admitted() {
        let host = "Host: 127.0.0.1:4000";
        assert_eq!(ask("GET /?token=secret HTTP/1.1", &[host]), Ok(Wanted::Page));
        assert_eq!(
            ask("GET /stream?token=secret HTTP/1.1", &[host]),
            Ok(Wanted::Stream(None))
        );
        assert_eq!(
            ask("GET /stream?token=secret&job=7 HTTP/1.1", &[host]),
            Ok(Wanted::Stream(Some(JobId(7))))
        );
        assert_eq!(
            ask("GET /stream?token=secret&job=x HTTP/1.1", &[host]),
            Err(Refused::BadRequest)
        );
        let bearer = |token: &str| {
            ask(
                "GET /metrics HTTP/1.1",
                &[host, &format!("Authorization: Bearer {token}")],
            )
        };
        assert_eq!(bearer("secret"), Ok(Wanted::Metrics(Format::Prometheus)));
        assert_eq!(bearer("Secret"), Err(Refused::Forbidden));
        assert_eq!(
            ask("GET /?token=x HTTP/1.1", &[host, "Authorization: Bearer secret"]),
            Err(Refused::Forbidden)
        );
        for wrong in [
            "/",
            "/?token=",
            "/?token=secre",
            "/?token=secret1",
            "/stream?token=Secret",
            "/metrics",
        ] {
            assert_eq!(
                ask(&format!("GET {wrong} HTTP/1.1"), &[host]),
                Err(Refused::Forbidden),
                "{wrong}"
            );
        }
        assert_eq!(ask("GET /else?token=secret HTTP/1.1", &[host]), Err(Refused::NotFound));
    }

    #[test]
    fn only_the_page_itself_may_order() {
        let (host, token) = ("Host: 127.0.0.1:4000", "X-Pcm-Token: secret");
        let own = "Origin: http://127.0.0.1:4000";
        for (path, wanted) in [("/act", Wanted::Act), ("/plan", Wanted::Plan)] {
            let post = format!("POST {path} HTTP/1.1");
            assert_eq!(ask(&post, &[host, token, own]), Ok(wanted));
            let in_address = format!("POST {path}?token=secret HTTP/1.1");
            for (first, headers) in [
                (&post, vec![host, token]),
                (&post, vec![host, token, "Origin: http://evil.test"]),
                (&post, vec![host, token, own, "Sec-Fetch-Site: cross-site"]),
                (&in_address, vec![host, own]),
            ] {
                assert_eq!(ask(first, &headers), Err(Refused::Forbidden), "{first} {headers:?}");
            }
        }
    }

    #[test]
    fn another_host_name_is_not_this_page() {
        let page = "GET /?token=secret HTTP/1.1";
        assert_eq!(ask(page, &["Host: rebound.test:4000"]), Err(Refused::Forbidden));
        assert_eq!(ask(page, &[]), Err(Refused::Forbidden));
        assert_eq!(
            ask(page, &["Host: 127.0.0.1:4000", "Host: x"]),
            Err(Refused::BadRequest)
        );
    }

    #[test]
    fn a_header_that_decides_comes_once_in_whatever_case() {
        let page = "GET /?token=secret HTTP/1.1";
        let here = "127.0.0.1:4000";
        for (one, other) in [
            ("Host", "Host"),
            ("host", "Host"),
            ("HOST", "HOST"),
            ("HOST", "host"),
            ("hOsT", "Host"),
            ("Host ", "host"),
        ] {
            let both = [format!("{one}: {here}"), format!("{other}: {here}")];
            let both = both.each_ref().map(String::as_str);
            assert_eq!(ask(page, &both), Err(Refused::BadRequest), "{both:?}");
        }
        for name in ONE_ONLY {
            let twice = [format!("{}: x", name.to_ascii_uppercase()), format!("{name}: x")];
            let twice = twice.each_ref().map(String::as_str);
            assert_eq!(ask(page, &twice), Err(Refused::BadRequest), "{name}");
        }
        let host = format!("HOST: {here}");
        assert_eq!(ask(page, &[&host, "Accept: a", "accept: b"]), Ok(Wanted::Page));
    }

    #[test]
    fn nonsense_is_refused_without_a_word() {
        for bad in ["", "GET /", "GET / HTTP/2", "GET / x HTTP/1.1"] {
            assert_eq!(ask(bad, &[]), Err(Refused::BadRequest), "{bad}");
        }
        assert!(refusal(Refused::Forbidden).ends_with("Content-Length: 0\r\n\r\n"));
    }
    const LINES: [&str; 12] = [
        "Host: 127.0.0.1:4000",
        "host: evil.test",
        "Origin: http://127.0.0.1:4000",
        "Origin: http://evil.test",
        "X-Pcm-Token: secret",
        "Authorization: Bearer secret",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: none",
        "Content-Length: 5",
        "Content-Length: 99999",
        "Accept: a",
        "",
    ];

    /// A head as browsers, other programs and strangers send it.
    fn any_head(random: &mut Random) -> String {
        let first = [
            "GET /?token=secret HTTP/1.1",
            "GET /stream?x=1&token=secret HTTP/1.0",
            "GET /metrics HTTP/1.1",
            "POST /act HTTP/1.1",
        ];
        let mut lines = vec![random.pick(&first).unwrap(), LINES[0]];
        lines.extend((0..random.below(4)).map(|_| LINES[random.index(LINES.len())]));
        let mut head = lines.join("\r\n").into_bytes();
        let at = random.index(head.len());
        match random.below(6) {
            0 => head[at] ^= 1 << random.below(8),
            1 => head.truncate(at),
            2 => head.insert(at, random.number() as u8),
            _ => {}
        }
        String::from_utf8_lossy(&head).into_owned()
    }

    #[test]
    fn of_heads_at_random_only_those_are_admitted_that_may_be() {
        let mut random = Random::new(22);
        let mut admitted = 0;
        for _ in 0..20_000 {
            let head = any_head(&mut random);
            let Ok(request) = Request::parse(&head) else { continue };
            assert!(request.body_length().unwrap_or_default() <= BODY_BYTES_MAX);
            let Ok(wanted) = request.admit("secret", HERE) else {
                continue;
            };
            admitted += 1;
            let values = |wanted: &str| -> Vec<&str> {
                let pairs = head.split("\r\n").filter_map(|line| line.split_once(':'));
                let named = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case(wanted));
                named.map(|(_, value)| value.trim()).collect()
            };
            assert_eq!(values("host"), [HERE], "{head:?}");
            assert!(
                head.contains("secret") && !values("sec-fetch-site").contains(&"cross-site"),
                "{head:?}"
            );
            if wanted == Wanted::Act {
                assert_eq!(values("origin"), ["http://127.0.0.1:4000"], "{head:?}");
                assert_eq!(values("x-pcm-token"), ["secret"], "{head:?}");
            }
        }
        assert!(admitted > 1000, "{admitted}");
    }
}

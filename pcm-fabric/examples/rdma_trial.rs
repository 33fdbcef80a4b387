//! Two processes on a (software) RoCE device: messages over UD, bulk transfers over RC. `rdma_trial serve` waits,
//! `rdma_trial try ADDRESS` does the asking and ends with `rdma: all is well`; `rdma_trial measure ADDRESS ROUNDS` says
//! how long the same bytes take by message and by transfer. The tests of the suite `rdma` and the bench `fabric-rdma`
//! run it in guests; addresses are exchanged over TCP, as a cluster's members would over their links.

use pcm_fabric::{
    ClusterKey,
    bulk::{BulkService as _, Protection, PutError, RegionToken},
    datagram::{Datagram, DatagramLimits, DatagramService as _},
    verbs::{Device, RcBulk, UdAddress},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

type Failure = Box<dyn std::error::Error>;

const PORT: u16 = 7777;
/// As long as an exchange may take: a guest on a busy machine stands still for seconds.
const DEADLINE: Duration = Duration::from_secs(30);
const BULK_DEADLINE: Duration = Duration::from_secs(240);
const MESSAGES: usize = 24;
const BULK_LENGTH: usize = 2 << 20;
/// Of what is measured: the largest is nearly the longest message.
const MEASURED_LENGTHS: [usize; 3] = [200, 8192, 49152];

#[derive(Serialize, Deserialize)]
struct Ends {
    talk: UdAddress,
    sealed: UdAddress,
    plain: UdAddress,
}

#[derive(Serialize, Deserialize)]
enum Ask {
    Echo(Vec<u8>),
    Take(String),
    Offer { length: usize, is_sealed: bool },
    Bye,
}

#[derive(Serialize, Deserialize)]
enum Answer {
    Echo(Vec<u8>),
    Token([u8; 16]),
    Filled { is_right: bool },
}

struct Here {
    device: Arc<Device>,
    key: ClusterKey,
    talk: Datagram<UdAddress>,
    sealed: RcBulk,
    plain: RcBulk,
}

fn here() -> Result<Here, Failure> {
    let device = Arc::new(Device::open(None)?);
    println!(
        "rdma: device {} packets of {} bytes",
        device.name(),
        device.packet_length_max()
    );
    let key = ClusterKey::from_hex("trial", &"5a".repeat(32))?;
    Ok(Here {
        talk: Datagram::ud(&device, &key, 1, DatagramLimits::default())?,
        sealed: RcBulk::start(&device, &key, 1, Protection::Sealed)?,
        plain: RcBulk::start(&device, &key, 1, Protection::Plain)?,
        device,
        key,
    })
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| ((at * 2_654_435_761) >> 13) as u8).collect()
}

async fn serve() -> Result<(), Failure> {
    let here = here()?;
    let listener = TcpListener::bind(("0.0.0.0", PORT))?;
    let (mut stream, _) = listener.accept()?;
    let ends = Ends {
        talk: here.talk.local(),
        sealed: here.sealed.local(),
        plain: here.plain.local(),
    };
    writeln!(stream, "{}", serde_json::to_string(&ends)?)?;
    while let Some(received) = here.talk.receive().await {
        let (talk, to) = (here.talk.clone(), received.from);
        let answer = |answer: Answer| async move {
            let message = serde_json::to_vec(&answer)?;
            talk.exchange(to, message, DEADLINE).await?;
            Ok::<(), Failure>(())
        };
        match serde_json::from_slice(&received.message)? {
            Ask::Echo(bytes) => answer(Answer::Echo(bytes)).await?,
            Ask::Take(_) => {}
            Ask::Offer { length, is_sealed } => {
                let bulk = if is_sealed { &here.sealed } else { &here.plain };
                let offer = bulk.offer(vec![0; length]).ok_or("too much is on offer")?;
                answer.clone()(Answer::Token(offer.token().0)).await?;
                let filled = offer.filled(BULK_DEADLINE).await.ok_or("the region was not filled")?;
                let is_right = filled == pattern(length);
                answer(Answer::Filled { is_right }).await?;
            }
            Ask::Bye => return Ok(()),
        }
    }
    Err("the endpoint stopped".into())
}

struct Asker {
    here: Here,
    there: Ends,
}

impl Asker {
    async fn say(&self, ask: &Ask) -> Result<(), Failure> {
        let message = serde_json::to_vec(ask)?;
        Ok(self.here.talk.exchange(self.there.talk, message, DEADLINE).await?)
    }

    async fn hear(&self) -> Result<Answer, Failure> {
        let received = tokio::time::timeout(BULK_DEADLINE, self.here.talk.receive()).await?;
        Ok(serde_json::from_slice(
            &received.ok_or("the endpoint stopped")?.message,
        )?)
    }

    async fn messages(&self) -> Result<(), Failure> {
        let mut fastest = Duration::MAX;
        for number in 0..MESSAGES {
            let bytes = pattern(number * number * 5);
            let begun = Instant::now();
            self.say(&Ask::Echo(bytes.clone())).await?;
            let Answer::Echo(echo) = self.hear().await? else {
                return Err("another answer than an echo".into());
            };
            fastest = fastest.min(begun.elapsed());
            if echo != bytes {
                return Err(format!("message {number} came back changed").into());
            }
        }
        let counters = self.here.talk.counters();
        println!(
            "rdma: ud: {MESSAGES} messages echoed, fastest {fastest:?}, {} packets sent",
            counters.packets_sent
        );
        Ok(())
    }

    /// Says lines of a name, a unit and samples, separated by tabs: until the word that it arrived comes back.
    async fn measure(&self, rounds: usize) -> Result<(), Failure> {
        let mut samples = BTreeMap::<String, Vec<String>>::new();
        for _ in 0..rounds {
            for length in MEASURED_LENGTHS {
                let mut note = |way: &str, begun: Instant| {
                    let us = begun.elapsed().as_secs_f64() * 1e6;
                    let name = format!("exchange, {length} B, {way}");
                    samples.entry(name).or_default().push(format!("{us:.1}"));
                };
                let message = serde_json::to_vec(&Ask::Take("x".repeat(length)))?;
                let fresh = Datagram::ud(&self.here.device, &self.here.key, 1, DatagramLimits::default())?;
                for (way, talk) in [("UD, cold", &fresh), ("UD, warm", &self.here.talk)] {
                    let begun = Instant::now();
                    talk.exchange(self.there.talk, message.clone(), DEADLINE).await?;
                    note(way, begun);
                }
                let (token, data) = (self.offered(length, true).await?, Arc::new(pattern(length)));
                let begun = Instant::now();
                self.here
                    .sealed
                    .put(self.there.sealed, token, data, BULK_DEADLINE)
                    .await?;
                note("RC", begun);
                self.hear_filled().await?;
            }
        }
        for (name, samples) in samples {
            println!("{name}\tus\t{}", samples.join(" "));
        }
        Ok(())
    }

    async fn offered(&self, length: usize, is_sealed: bool) -> Result<RegionToken, Failure> {
        self.say(&Ask::Offer { length, is_sealed }).await?;
        match self.hear().await? {
            Answer::Token(token) => Ok(RegionToken(token)),
            _ => Err("another answer than a token".into()),
        }
    }

    async fn hear_filled(&self) -> Result<(), Failure> {
        match self.hear().await? {
            Answer::Filled { is_right: true } => Ok(()),
            _ => Err("what was written is not what was sent".into()),
        }
    }

    /// Fills a region from `writers` sides at once: they take it from each other, so their connections break and both
    /// go on where the region stands.
    async fn bulk(&self, is_sealed: bool, writers: usize) -> Result<(), Failure> {
        let token = self.offered(BULK_LENGTH, is_sealed).await?;
        let (bulk, to) = if is_sealed {
            (&self.here.sealed, self.there.sealed)
        } else {
            (&self.here.plain, self.there.plain)
        };
        let data = Arc::new(pattern(BULK_LENGTH));
        if is_sealed {
            let put = self.here.plain.put(to, token, Arc::clone(&data), BULK_DEADLINE);
            if put.await != Err(PutError::Protection) {
                return Err("an endpoint that encrypts took what was not encrypted".into());
            }
        }
        let begun = Instant::now();
        let puts = (0..writers).map(|_| {
            let (bulk, data) = (bulk.clone(), Arc::clone(&data));
            tokio::spawn(async move { bulk.put(to, token, data, BULK_DEADLINE).await })
        });
        let mut reconnects = 0;
        for put in puts.collect::<Vec<_>>() {
            reconnects += put.await??.reconnects;
        }
        self.hear_filled().await?;
        // One writer's connection may break too: on a busy machine a guest stands still for seconds.
        if reconnects == 0 && writers > 1 {
            return Err("two writers did not get into each other's way".into());
        }
        println!(
            "rdma: rc: {BULK_LENGTH} bytes written and checked in {:?}, sealed {is_sealed}, broken connections \
             {reconnects}",
            begun.elapsed()
        );
        Ok(())
    }
}

async fn meet(address: &str) -> Result<Asker, Failure> {
    let here = here()?;
    let begun = Instant::now();
    let stream = loop {
        match TcpStream::connect((address, PORT)) {
            Ok(stream) => break stream,
            Err(error) if begun.elapsed() > DEADLINE => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(Asker {
        here,
        there: serde_json::from_str(&line)?,
    })
}

async fn attempt(address: &str) -> Result<(), Failure> {
    let asker = meet(address).await?;
    asker.messages().await?;
    for (is_sealed, writers) in [(false, 1), (true, 1), (false, 2)] {
        asker.bulk(is_sealed, writers).await?;
    }
    asker.say(&Ask::Bye).await?;
    println!("rdma: all is well");
    Ok(())
}

async fn measure(address: &str, rounds: usize) -> Result<(), Failure> {
    let asker = meet(address).await?;
    asker.measure(rounds).await?;
    asker.say(&Ask::Bye).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<&str>>()[1..] {
        ["serve"] => serve().await,
        ["try", address] => attempt(address).await,
        ["measure", address, rounds] => measure(address, rounds.parse()?).await,
        _ => Err("usage: rdma_trial serve | rdma_trial try ADDRESS | rdma_trial measure ADDRESS ROUNDS".into()),
    }
}

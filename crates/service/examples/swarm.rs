//! Many nodes in one process, for measurements: services of information that register with one that is measured, over
//! the protocol and the sockets of real ones. Their nodes are made up: nobody samples, values are drawn from a seed.
//!
//!     swarm --register URL --token FILE --services N --nodes N [--period MS] [--moving N] [--text KB]
//!
//! Each service has as many of the nodes as the others. A node has 40 attributes; `--moving` of them (6) are others
//! after each period (1,000 ms), the rest is sampled and the same. The nodes of a service are sampled one after the
//! other, as those of a leader would be. With `--text`, each node has that number of KB (of 1,000) in eight texts as
//! well. It runs until its standard input ends. `bench/information paper` starts it.

mod made_up;

use std::cell::RefCell;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use made_up::{ATTRIBUTES, Random, attributes, number, value, word};
use rakuda_info::catalogue::BuiltIn;
use rakuda_info::registry::{Attribute, AttributeId, Threshold};
use rakuda_info::table::{NodeId, Table};
use rakuda_info::value::{Kind, Value};
use rakuda_service::{Client, Freshness, Registration, Service, ServiceConfig, Token, now};

type Failure = Box<dyn std::error::Error>;

const TEXTS: usize = 8;
/// Number of parts in which the nodes of a service are sampled, spread over the period.
const PARTS: u32 = 20;

/// What is asked for.
struct Wanted {
    register: String,
    token: PathBuf,
    services: u32,
    nodes: u32,
    period: Duration,
    moving: usize,
    text: usize,
}

impl Wanted {
    fn of(words: &[String]) -> Result<Self, Failure> {
        let needed = |name: &str| word(words, name).ok_or_else(|| format!("{name} is missing"));
        let number = |name: &str, otherwise: u32| number(words, name, otherwise);
        Ok(Self {
            register: needed("--register")?.clone(),
            token: needed("--token")?.into(),
            services: number("--services", 1)?.max(1),
            nodes: number("--nodes", 1)?,
            period: Duration::from_millis(number("--period", 1000)?.max(1).into()),
            moving: number("--moving", 6)? as usize,
            text: number("--text", 0)? as usize,
        })
    }
}

/// The nodes of one service.
struct Nodes {
    rows: Vec<NodeId>,
    attributes: Vec<(AttributeId, &'static BuiltIn)>,
    texts: Vec<AttributeId>,
    /// How many of the attributes that are no text move.
    moving: usize,
    random: Random,
}

impl Nodes {
    fn new(numbers: std::ops::Range<u32>, wanted: &Wanted, table: &mut Table) -> Self {
        let random = Random(u64::from(numbers.start) + 7);
        let rows: Vec<NodeId> =
            numbers.map(|number| table.node(None, &format!("node{number:05}"))).collect();
        let attributes = attributes(table);
        let texts = texts(wanted.text, table);
        let mut nodes = Self { rows, attributes, texts, moving: ATTRIBUTES, random };
        nodes.sample(0..nodes.rows.len(), table);
        nodes.moving = wanted.moving;
        let text = Value::text("x".repeat(wanted.text * 1000 / TEXTS));
        for (row, id) in
            nodes.rows.iter().flat_map(|row| nodes.texts.iter().map(move |id| (row, id)))
        {
            table.set(*row, *id, text.clone(), now());
        }
        nodes
    }

    /// Numbers come first: some move, the others were found to be what they were.
    fn sample(&mut self, rows: std::ops::Range<usize>, table: &mut Table) {
        let at = now();
        for row in &self.rows[rows] {
            for (place, (id, built_in)) in self.attributes.iter().enumerate() {
                if place < self.moving {
                    table.set(*row, *id, value(built_in, &mut self.random), at);
                } else {
                    table.set_sampled(*row, *id, at);
                }
            }
            for id in &self.texts {
                table.set_sampled(*row, *id, at);
            }
        }
    }
}

/// As programs that print them would provide them.
fn texts(kilobytes: usize, table: &mut Table) -> Vec<AttributeId> {
    let count = if kilobytes == 0 { 0 } else { TEXTS };
    let text = |part| Attribute {
        name: format!("part{part}"),
        unit: String::new(),
        kind: Kind::Text,
        threshold: Threshold { absolute: 0.0, relative: 0.0 },
        provider: format!("program{part}"),
    };
    (0..count).filter_map(|part| table.define(text(part)).ok()).collect()
}

/// One of the services; its nodes are sampled for ever.
async fn serve(number: u32, wanted: &Wanted, folder: &Path) -> Result<(), Failure> {
    let each = |number: u32| {
        let nodes = u64::from(wanted.nodes) * u64::from(number) / u64::from(wanted.services);
        u32::try_from(nodes).unwrap_or(u32::MAX)
    };
    let mut table = Table::new();
    let nodes = Nodes::new(each(number)..each(number + 1), wanted, &mut table);
    let nodes = Rc::new(RefCell::new(nodes));
    let config = ServiceConfig {
        keep_down: Duration::from_secs(3600),
        listen: ([127, 0, 0, 1], 0).into(),
        token_file: folder.join("token"),
        period: wanted.period,
        watched: Vec::new(),
        externals: Vec::new(),
        has_own: false,
        name: None,
        validity: Freshness::default(),
    };
    // A service that cannot register tries again. The program that started this one counts the nodes that are known.
    let service = Service::start(config, table, |_| {}).await?;
    let (asked_nodes, asked_service) = (Rc::clone(&nodes), Rc::downgrade(&service));
    let (ask, mut asked) = tokio::sync::mpsc::unbounded_channel();
    service.set_asker(move |_| {
        // It is listened to as long as there is a service.
        let _ = ask.send(());
    });
    tokio::task::spawn_local(async move {
        while let (Some(()), Some(service)) = (asked.recv().await, asked_service.upgrade()) {
            let nodes = &mut *asked_nodes.borrow_mut();
            service.change(|table| nodes.sample(0..nodes.rows.len(), table));
        }
    });
    let client = Client::new(&wanted.register, Token::read(&wanted.token)?)?;
    let name = format!("swarm{number}");
    service.register(Registration { client, name, period: wanted.period });
    let mut beats = tokio::time::interval(wanted.period / PARTS);
    tokio::task::spawn_local(async move {
        for part in (0..PARTS as usize).cycle() {
            beats.tick().await;
            let nodes = &mut *nodes.borrow_mut();
            let at = |part: usize| nodes.rows.len() * part / PARTS as usize;
            let rows = at(part)..at(part + 1);
            service.change(|table| nodes.sample(rows, table));
        }
    });
    Ok(())
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let wanted = Wanted::of(&words)?;
    rakuda_agent::limits::widen();
    let folder = wanted.token.with_extension("swarm");
    std::fs::create_dir_all(&folder)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        for number in 0..wanted.services {
            serve(number, &wanted, &folder).await?;
        }
        let input = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        input.await??;
        Ok::<(), Failure>(())
    })?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

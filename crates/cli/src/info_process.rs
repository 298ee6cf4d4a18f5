//! `rakudad info`: the information service as a process of its own.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use rakuda_agent::{files, processes};
use rakuda_info::table::Table;
use rakuda_service::{ExternalProvider, Service, ServiceConfig};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

use crate::far_hosts::FarHosts;

/// Where it listens unless told otherwise; the system chooses the port.
const LISTEN: &str = "127.0.0.1:0";
/// Between two samples.
const PERIOD_NS: u64 = 1_000_000_000;
/// Shortest and longest time between two samples.
const PERIODS_NS: std::ops::RangeInclusive<u64> = 10_000_000..=3_600_000_000_000;

/// The token file unless told otherwise: in this user's own folder. `making`: the folder is made when it is not there.
pub fn token_file(making: bool) -> anyhow::Result<PathBuf> {
    let folder = if making { files::make_scratch()? } else { files::scratch() };
    Ok(folder.join("info.token"))
}

/// Serves until it is told to end. `None`: the words are wrong.
pub fn run(words: &[&str]) -> anyhow::Result<Option<u8>> {
    let Some((config, hosts)) = understood(words)? else { return Ok(None) };
    processes::set_name("rakuda-info");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    tokio::task::LocalSet::new().block_on(&runtime, serve(config, hosts))?;
    Ok(Some(0))
}

async fn serve(mut config: ServiceConfig, hosts: Option<String>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listen for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for signals")?;
    let file = config.token_file.clone();
    let period = config.period;
    let mut table = Table::new();
    let hosts = hosts.map(|file| FarHosts::start(&file, period, &mut table)).transpose()?;
    config.has_own = hosts.as_ref().is_none_or(|hosts| hosts.has_own);
    let service = Service::start(config, table, complain).await?;
    let (ask, asked) = unbounded_channel();
    service.set_asker(move || {
        // Who has nobody to ask has no hosts.
        let _ = ask.send(());
    });
    let (end, ended) = oneshot::channel();
    let watching = hosts.map(|hosts| {
        tokio::task::spawn_local(watch(hosts, Rc::clone(&service), period, asked, ended))
    });
    service.be_ready().await;
    let mut out = std::io::stdout();
    // Who does not read it knows it already.
    let _ = writeln!(out, "http://{} token {}", service.address(), file.display());
    let _ = out.flush();
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    service.end();
    if let Some(watching) = watching {
        let _ = end.send(());
        let _ = watching.await;
    }
    Ok(())
}

fn complain(line: &str) {
    crate::complain(&format!("rakudad info: {line}\n"));
}

/// Notes what hosts tell, until the service ends.
async fn watch(
    mut hosts: FarHosts,
    service: Rc<Service>,
    period: Duration,
    mut asked: UnboundedReceiver<()>,
    mut ended: oneshot::Receiver<()>,
) {
    let mut looks = tokio::time::interval(period);
    loop {
        tokio::select! {
            _ = &mut ended => break,
            report = hosts.next() => {
                let now = rakuda_service::now();
                let told = service.change(|table| hosts.note(report, table, now));
                if let Some(told) = told {
                    complain(&told);
                }
            }
            _ = looks.tick() => {
                service.change(|table| hosts.note_silence(table, rakuda_service::now()));
            }
            Some(()) = asked.recv() => hosts.sample_now(),
        }
    }
    hosts.close().await;
}

/// The words, and the host file among them.
fn understood(words: &[&str]) -> anyhow::Result<Option<(ServiceConfig, Option<String>)>> {
    let mut hosts = None;
    let mut listen = LISTEN;
    let (mut token, mut providers, mut period) = (None, None, PERIOD_NS);
    let mut watched = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(value) = words.next() else { return Ok(None) };
        match *word {
            "-F" | "--hosts" => {
                hosts = Some((*value).to_owned()).filter(|hosts| hosts != "localhost");
            }
            "--listen" => listen = value,
            "--token-file" => token = Some(PathBuf::from(value)),
            "--providers" => providers = Some(PathBuf::from(value)),
            "--file-system" => {
                anyhow::ensure!(value.starts_with('/'), "watch {value}: expected an absolute path");
                watched.push((*value).to_owned());
            }
            "--period" => {
                let found = rakuda_info::duration_ns(value).filter(|it| PERIODS_NS.contains(it));
                period = found.with_context(|| {
                    format!("understand --period {value}: expected 10ms to 1h, such as 500ms")
                })?;
            }
            _ => return Ok(None),
        }
    }
    let listen: SocketAddr = listen.parse().ok().with_context(|| {
        format!("understand --listen {listen}: expected ADDRESS:PORT, such as 127.0.0.1:9300")
    })?;
    let token_file = match token {
        Some(file) => file,
        None => token_file(true)?,
    };
    let externals = match providers {
        Some(file) => ExternalProvider::read(&file)?,
        None => Vec::new(),
    };
    let period = Duration::from_nanos(period);
    let has_own = true;
    let config = ServiceConfig { listen, token_file, period, watched, externals, has_own };
    Ok(Some((config, hosts)))
}

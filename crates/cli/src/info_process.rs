//! `rakudad info`: the information service as a process of its own.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use rakuda_agent::providers::ExternalProvider;
use rakuda_agent::supervisor::Supervisor;
use rakuda_agent::{clock, files, limits, processes};
use rakuda_info::table::Table;
use rakuda_service::{Client, Freshness, Registration, Service, ServiceConfig, Token};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

use crate::far_hosts::FarHosts;

/// What `rakudad info --help` prints.
pub const USAGE: &str = "usage: rakudad info [OPTION...]

The information service: tells the state of this machine, of hosts, and of what services tell that
register with it, over HTTP, until it gets SIGTERM or Ctrl-C. When it can answer, it prints where
it listens and which file has the token that clients must show:

    http://127.0.0.1:39785 token /tmp/rakuda-1000/info.token

`rakudactl nodes --service URL --token-file FILE` asks it.

  -F, --hosts FILE            the hosts of a host file, over ssh; this machine when it is one of
                              them. localhost: this machine, as without -F; none: no host, only
                              what registers here
  --listen ADDRESS:PORT       where it listens (127.0.0.1:0, a free port)
  --token-file FILE           the file with its token, made with mode 0600 when it is not there
                              (${TMPDIR:-/tmp}/rakuda-UID/info.token)
  --period TIME               between two samples, 10ms to 1h (1s)
  --providers FILE            programs that provide more; SIGHUP has the file read anew
  --file-system FOLDER        a folder whose file system is watched; may be given several times
  --name NAME                 what this machine is called, also as a service that registers (its
                              host name)
  --validity [NAME=]TIME      no answer has older values, of all, or of a provider or an attribute;
                              may be given several times
  --keep-down TIME            nodes of services that register are removed when they have been down
                              for TIME, 1s to 366d (1h)
  --register URL              registers with another service, which then tells of these nodes, too
  --register-token-file FILE  the file with the token of that service (that of --token-file)
  --help                      print this text

Exit status: 0 ended by a signal, 1 it could not begin, 2 usage.
";

/// Where it listens by default; the system chooses the port.
const LISTEN: &str = "127.0.0.1:0";
/// For `-F`: no host, only what registers here.
const NO_HOSTS: &str = "none";
/// Time between two samples, unless an option says otherwise.
const PERIOD_NS: u64 = 1_000_000_000;
/// Minimum and maximum time between two samples.
const PERIODS_NS: std::ops::RangeInclusive<u64> = 10_000_000..=3_600_000_000_000;

/// Time for which nodes that are down are kept, unless an option says otherwise.
const KEEP_DOWN_NS: u64 = 3_600_000_000_000;
/// Minimum and maximum of that time.
const KEEP_DOWNS_NS: std::ops::RangeInclusive<u64> = 1_000_000_000..=31_622_400_000_000_000;

/// The default token file: in this user's own folder. `making`: the folder is made when it is not there.
pub fn token_file(making: bool) -> anyhow::Result<PathBuf> {
    let folder = if making { files::make_scratch()? } else { files::scratch() };
    Ok(folder.join("info.token"))
}

/// A word that is no option, or an option that lacks its value.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum WordError {
    /// Nothing is called so.
    #[error("{0:?} is no option")]
    Unknown(String),
    /// It ends with an option.
    #[error("the option {0} needs a value")]
    Bare(String),
    /// An option has an empty value.
    #[error("the option {0} needs a value that is not empty")]
    Empty(String),
}

/// Serves until a signal ends it.
pub fn run(words: &[&str]) -> anyhow::Result<()> {
    let wanted = understood(words)?;
    processes::set_name("rakuda-info");
    // Each service that registers has two connections.
    limits::widen();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    tokio::task::LocalSet::new().block_on(&runtime, serve(wanted))
}

async fn serve(wanted: Wanted) -> anyhow::Result<()> {
    let Wanted { mut config, providers_file, hosts, register, register_token } = wanted;
    let supervisor = Supervisor::named();
    let anew = Anew { providers_file, hosts: hosts.clone(), is_supervised: supervisor.is_some() };
    let told_of = hosts.clone().or_else(|| (!config.has_own).then(|| NO_HOSTS.to_owned()));
    let mut terminate = signal(SignalKind::terminate()).context("listen for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for signals")?;
    let mut hang_up = anew.listen()?;
    let file = config.token_file.clone();
    let period = config.period;
    // Numbers of changes are others than those of a service that was here before: none makes a million a second.
    let start_us = u64::try_from(clock::wall_ns()).unwrap_or(0) / 1000;
    let mut table = Table::numbered_from(start_us);
    let own = std::mem::take(&mut config.externals);
    let hosts = match hosts {
        Some(file) => {
            let mut hosts = FarHosts::start(&file, period, own.clone(), &mut table)?;
            // No message has gone to a host so far.
            hosts.folders.clone_from(&config.watched);
            Some(hosts)
        }
        None => None,
    };
    config.has_own &= hosts.as_ref().is_none_or(|hosts| hosts.has_own);
    let client = register
        .map(|url| Client::new(&url, Token::read(&register_token)?).map_err(anyhow::Error::from));
    let client = client.transpose()?;
    let own_name = config.name.clone();
    config.externals = hosts.as_ref().map_or(own, |hosts| hosts.providers.clone());
    let service = Service::start(config, table, complain).await?;
    let (ask, asked) = unbounded_channel();
    service.set_asker(move |providers| {
        // It fails only where there are no hosts to ask.
        let _ = ask.send(providers);
    });
    let (end, ended) = oneshot::channel();
    let (provide, provided) = unbounded_channel();
    let watching = hosts.map(|hosts| {
        let orders = Orders { asked, provided, ended };
        tokio::task::spawn_local(watch(hosts, Rc::clone(&service), period, orders))
    });
    service.be_ready().await;
    tokio::task::spawn_local(Rc::clone(&service).tell_unknown());
    if let Some(client) = client {
        // It is the same after a restart, so that its nodes are its own at once: no port that the system has chosen.
        let host = rakuda_service::host_name();
        let name = own_name.unwrap_or_else(|| {
            told_of.map_or_else(|| host.clone(), |hosts| format!("{host}:{hosts}"))
        });
        service.register(Registration { client, name, period });
    }
    let mut out = std::io::stdout();
    // A caller that does not read it knows it already.
    let _ = writeln!(out, "http://{} token {}", service.address(), file.display());
    let _ = out.flush();
    if let Some(Err(error)) = supervisor.map(|supervisor| supervisor.be_ready()) {
        complain(&format!("failed to tell who has started it that it is ready: {error}"));
    }
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            () = hung_up(&mut hang_up) => match anew.read() {
                Ok(providers) => {
                    if let Err(error) = service.set_externals(&providers) {
                        complain(&format!("failed to start a provider: {error}"));
                    }
                    // Without hosts elsewhere nobody listens.
                    let _ = provide.send(providers);
                }
                Err(error) => complain(&format!("failed to {error:#}; all providers go on")),
            },
        }
    }
    service.leave().await;
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

/// Where providers are named, which SIGHUP has read anew.
struct Anew {
    providers_file: Option<PathBuf>,
    /// The host file.
    hosts: Option<String>,
    /// Another program watches this one: the signal comes from there, and not from a terminal that is closed.
    is_supervised: bool,
}

/// What the file of `--providers` says.
fn provided(file: Option<&Path>) -> anyhow::Result<Vec<ExternalProvider>> {
    Ok(file.map(ExternalProvider::read).transpose()?.unwrap_or_default())
}

impl Anew {
    /// Where nothing can be read anew, the signal ends the service, as it ends other programs; not where a supervisor
    /// sends it that cannot know this.
    fn listen(&self) -> anyhow::Result<Option<Signal>> {
        let is_heard = self.is_supervised || self.providers_file.is_some() || self.hosts.is_some();
        is_heard.then(|| signal(SignalKind::hangup()).context("listen for signals")).transpose()
    }

    fn read(&self) -> anyhow::Result<Vec<ExternalProvider>> {
        let own = provided(self.providers_file.as_deref())?;
        match &self.hosts {
            Some(file) => FarHosts::providers_anew(file, own),
            None => Ok(own),
        }
    }
}

async fn hung_up(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// What [`watch`] receives.
struct Orders {
    asked: UnboundedReceiver<Vec<String>>,
    provided: UnboundedReceiver<Vec<ExternalProvider>>,
    ended: oneshot::Receiver<()>,
}

/// Notes what hosts tell, until the service ends.
async fn watch(mut hosts: FarHosts, service: Rc<Service>, period: Duration, orders: Orders) {
    let Orders { mut asked, mut provided, mut ended } = orders;
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
            Some(providers) = asked.recv() => hosts.sample_now(&providers),
            Some(providers) = provided.recv() => hosts.set_providers(providers),
        }
    }
    hosts.close().await;
}

/// What the words of the command line say.
struct Wanted {
    config: ServiceConfig,
    providers_file: Option<PathBuf>,
    /// The host file.
    hosts: Option<String>,
    /// The service that it registers with.
    register: Option<String>,
    register_token: PathBuf,
}

fn understood(words: &[&str]) -> anyhow::Result<Wanted> {
    let (mut hosts, mut has_own) = (None, true);
    let (mut name, mut register, mut register_token) = (None, None, None);
    let mut validity = Freshness::default();
    let mut listen = LISTEN;
    let (mut token, mut providers, mut period) = (None, None, PERIOD_NS);
    let mut keep_down = KEEP_DOWN_NS;
    let mut watched = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || match words.next() {
            None => Err(WordError::Bare((*word).to_owned())),
            Some(value) if value.trim().is_empty() => Err(WordError::Empty((*word).to_owned())),
            Some(value) => Ok(*value),
        };
        match *word {
            "-F" | "--hosts" => {
                let value = value()?;
                has_own = value != NO_HOSTS;
                hosts = Some(value.to_owned()).filter(|it| has_own && it != "localhost");
            }
            "--name" => {
                let value = value()?;
                let is_good = value.len() <= 255 && !value.chars().any(char::is_control);
                anyhow::ensure!(
                    is_good,
                    "understand --name {value:?}: expected 1 to 255 bytes without control characters"
                );
                name = Some(value.to_owned());
            }
            "--register" => register = Some(value()?.to_owned()),
            "--register-token-file" => register_token = Some(PathBuf::from(value()?)),
            "--validity" => {
                let value = value()?;
                let added = validity.add(value).map_err(anyhow::Error::msg);
                added.with_context(|| format!("understand --validity {value}"))?;
            }
            "--listen" => listen = value()?,
            "--token-file" => token = Some(PathBuf::from(value()?)),
            "--providers" => providers = Some(PathBuf::from(value()?)),
            "--file-system" => {
                let value = value()?;
                anyhow::ensure!(value.starts_with('/'), "watch {value}: expected an absolute path");
                watched.push(value.to_owned());
            }
            "--period" => {
                let value = value()?;
                let found = rakuda_info::duration_ns(value).filter(|it| PERIODS_NS.contains(it));
                period = found.with_context(|| {
                    format!("understand --period {value}: expected 10ms to 1h, such as 500ms")
                })?;
            }
            "--keep-down" => {
                let value = value()?;
                let found = rakuda_info::duration_ns(value).filter(|it| KEEP_DOWNS_NS.contains(it));
                keep_down = found.with_context(|| {
                    format!("understand --keep-down {value}: expected 1s to 366d, such as 30min")
                })?;
            }
            _ => return Err(WordError::Unknown((*word).to_owned()).into()),
        }
    }
    let listen: SocketAddr = listen.parse().ok().with_context(|| {
        format!("understand --listen {listen}: expected ADDRESS:PORT, such as 127.0.0.1:9300")
    })?;
    let token_file = match token {
        Some(file) => file,
        None => token_file(true)?,
    };
    let externals = provided(providers.as_deref())?;
    let (period, keep_down) = (Duration::from_nanos(period), Duration::from_nanos(keep_down));
    let register_token = register_token.unwrap_or_else(|| token_file.clone());
    let config = ServiceConfig {
        listen,
        token_file,
        period,
        watched,
        externals,
        has_own,
        name,
        validity,
        keep_down,
    };
    Ok(Wanted { config, providers_file: providers, hosts, register, register_token })
}

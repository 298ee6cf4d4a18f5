//! Threads that sample: one for the built-in providers that answer at once, one for file systems,
//! one for each external provider.
//!
//! A thread samples by its period, and when it is asked. What it finds goes to the service through a channel; only a
//! question for a fresh sample waits for a thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rakuda_agent::providers::ExternalProvider;
use rakuda_agent::{Sampled, clock};
use rakuda_info::Time;
use rakuda_info::external::Output;
use rakuda_info::provider::{self, FileSystems, Moment, Provider, Reading, Root, quick};
use rakuda_info::table::{NodeId, Table};
use tokio::sync::{mpsc, oneshot};

use crate::external;
use crate::nvml::{self, Gpus, NoGpus};

/// Notified when a sample that was asked for has been noted.
pub(crate) type Done = oneshot::Sender<()>;

/// What a thread has found.
pub(crate) enum Found {
    /// By a built-in provider.
    BuiltIn { provider: &'static str, sample: Vec<Reading>, at: Time },
    /// By an external one; `is_line`: by one that is long-lived.
    External { provider: String, output: Output, is_line: bool, at: Time },
    /// An external one failed.
    Failed { provider: String, why: String, at: Time },
    /// All that was asked for has been sent.
    Asked(Done),
}

/// A sample that is asked for now.
pub(crate) struct Ask {
    /// Built-in providers that are wanted. `None`: all of the thread.
    pub only: Option<Vec<String>>,
    pub done: Done,
}

/// A thread that samples.
pub(crate) struct Sampler {
    /// Whose attributes it sets.
    pub providers: Vec<String>,
    asks: Sender<Ask>,
    /// False for a long-lived provider, which sends its values by itself.
    takes_asks: bool,
    /// What an external provider's processes carry.
    mark: Option<String>,
    /// While this exists, the thread sends what it finds.
    _alive: Arc<()>,
}

impl Sampler {
    /// What an external provider's processes carry.
    pub fn mark(&self) -> Option<&str> {
        self.mark.as_deref()
    }

    /// Asks for a sample. `true`: `ask.done` will be notified when it has been noted.
    pub fn ask(&self, ask: Ask) -> bool {
        self.takes_asks && self.asks.send(ask).is_ok()
    }
}

/// Where a thread sends what it finds, as long as that is wanted.
pub(crate) struct Telling {
    found: mpsc::UnboundedSender<Found>,
    alive: Weak<()>,
}

impl Telling {
    fn new(found: &mpsc::UnboundedSender<Found>) -> (Self, Arc<()>) {
        let alive = Arc::new(());
        (Self { found: found.clone(), alive: Arc::downgrade(&alive) }, alive)
    }

    /// Nobody listens any more.
    pub fn is_over(&self) -> bool {
        self.found.is_closed() || self.alive.strong_count() == 0
    }

    /// False: nobody listens any more.
    pub fn tell(&self, found: Found) -> bool {
        !self.is_over() && self.found.send(found).is_ok()
    }
}

/// What external providers have running: it is killed when this is dropped.
pub(crate) struct Programs {
    /// The beginning of all marks.
    mark: String,
    /// Of each that was started and is not ended.
    marks: RefCell<BTreeSet<String>>,
    started: Cell<u32>,
}

impl Programs {
    /// None of them runs yet.
    pub fn new() -> Self {
        let mark = rakuda_agent::processes::new_mark();
        Self { mark, marks: RefCell::default(), started: Cell::new(0) }
    }

    /// What processes of a provider that is started now carry: another of that name has another one.
    fn mark_of(&self, provider: &str) -> String {
        let number = self.started.get() + 1;
        self.started.set(number);
        let mark = format!("{}/{provider}/{number}", self.mark);
        self.marks.borrow_mut().insert(mark.clone());
        mark
    }

    /// Kills what runs of a provider whose thread is to end.
    pub fn end_of(&self, mark: &str) {
        if self.marks.borrow_mut().remove(mark) {
            rakuda_agent::programs::kill_marked([mark]);
        }
    }

    /// Kills what runs.
    pub fn end(&self) {
        rakuda_agent::programs::kill_marked(&*self.marks.borrow());
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        self.end();
    }
}

/// The moment, by the clocks that samples have.
pub(crate) fn moment() -> Moment {
    let now = Time(u64::try_from(clock::journal_ns()).unwrap_or(0));
    Moment { now, file_ns: clock::file_ns() }
}

/// Number of periods between two samples: more than one for what hardly changes, and takes a look at many files.
fn periods(provider: &str) -> u64 {
    match provider {
        "cpu" => 60,
        "host" | "users" => 10,
        _ => 1,
    }
}

/// What this machine says of itself, for a program that keeps a table of its own and answers no questions.
pub struct Machine {
    news: mpsc::UnboundedReceiver<Found>,
    control: Rc<Control>,
    /// Built-in providers of which nothing has come yet.
    missing: BTreeSet<String>,
}

/// What samples for a [`Machine`], whichever part waits for findings. Its threads end when it is dropped.
pub(crate) struct Control {
    samplers: RefCell<Vec<Sampler>>,
    programs: Programs,
    externals: RefCell<Vec<ExternalProvider>>,
    named: Named,
    found: mpsc::UnboundedSender<Found>,
}

/// Folders whose file systems are sampled, too, beside those that keep data; all clones are one list.
type Named = Arc<Mutex<Vec<String>>>;

impl Control {
    /// Has these providers sample now, too. An empty list means all of them.
    pub fn sample_now(&self, only: &[String]) {
        for sampler in &*self.samplers.borrow() {
            let is_wanted = |name: &&String| only.contains(name);
            let wanted: Vec<String> = sampler.providers.iter().filter(is_wanted).cloned().collect();
            if only.is_empty() || !wanted.is_empty() {
                // That it was noted is seen by the times of the samples.
                let (done, _) = oneshot::channel();
                sampler.ask(Ask { only: Some(wanted).filter(|_| !only.is_empty()), done });
            }
        }
    }

    /// The file systems of these folders are sampled from now on.
    pub fn name(&self, folders: &[String]) {
        *self.named.lock().unwrap_or_else(PoisonError::into_inner) = folders.to_vec();
    }

    /// From now on these programs provide; see [`exchange`].
    pub fn provide(&self, externals: &[ExternalProvider]) -> std::io::Result<()> {
        let before = self.externals.replace(externals.to_vec());
        let mut samplers = self.samplers.borrow_mut();
        exchange(&mut samplers, &before, externals, &self.programs, &self.found)
    }

    /// Kills what its external providers have running.
    pub fn end(&self) {
        self.programs.end();
    }

    /// Whether a program of that name provides; one that was removed may have something on its way.
    fn has(&self, provider: &str) -> bool {
        self.externals.borrow().iter().any(|it| it.name == provider)
    }
}

/// What a provider of a [`Machine`] has found.
pub struct Finding(Found);

impl Machine {
    /// Starts threads that sample what is wanted, until it is dropped.
    pub fn start(wanted: &Sampled) -> std::io::Result<Self> {
        let Sampled { period, providers: externals, folders } = wanted;
        let (found, news) = mpsc::unbounded_channel();
        let programs = Programs::new();
        let named = Named::new(Mutex::new(folders.clone()));
        let also = Arc::clone(&named);
        let file_systems = FileSystems::new(Vec::new())
            .with(move || also.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let root = Root::new("/");
        let samplers = start(&root, *period, file_systems, externals.clone(), &programs, &found)?;
        // A driver that hangs keeps nobody from being known.
        let is_built_in =
            |name: &String| *name != nvml::PROVIDER && externals.iter().all(|it| it.name != *name);
        let names = samplers.iter().flat_map(|it| it.providers.iter().cloned());
        let missing = names.filter(is_built_in).collect();
        let (samplers, externals) = (RefCell::new(samplers), RefCell::new(externals.clone()));
        let control = Rc::new(Control { samplers, programs, externals, named, found });
        Ok(Self { news, control, missing })
    }

    /// Has these providers sample now, too. An empty list means all of them. What is found comes as findings.
    pub fn sample_now(&self, only: &[String]) {
        self.control.sample_now(only);
    }

    /// From now on this is sampled, as often as before. What goes on is not disturbed.
    pub fn want(&self, wanted: &Sampled) -> std::io::Result<()> {
        self.control.name(&wanted.folders);
        self.control.provide(&wanted.providers)
    }

    /// What samples for it.
    pub(crate) fn control(&self) -> Rc<Control> {
        Rc::clone(&self.control)
    }

    /// Waits for the next finding.
    pub async fn finding(&mut self) -> Finding {
        match self.news.recv().await {
            Some(found) => Finding(found),
            // Its threads never end as long as it is there.
            None => std::future::pending().await,
        }
    }

    /// One that has come already.
    pub fn next_finding(&mut self) -> Option<Finding> {
        self.news.try_recv().ok().map(Finding)
    }

    /// Notes what was found of a node.
    pub fn note(&mut self, finding: Finding, table: &mut Table, node: NodeId) {
        match finding.0 {
            Found::BuiltIn { provider, sample, at } => {
                self.missing.remove(provider);
                provider::note(table, node, provider, &sample, at);
            }
            // `provider_error` says what is wrong with it.
            Found::External { provider, output, is_line, at } if self.control.has(&provider) => {
                rakuda_info::external::note(table, node, &provider, &output, is_line, at);
            }
            Found::Failed { provider, why, at } if self.control.has(&provider) => {
                rakuda_info::external::fail(table, node, &provider, &why, at);
            }
            Found::External { .. } | Found::Failed { .. } | Found::Asked(_) => {}
        }
    }

    /// Whether each built-in provider has said something.
    pub fn is_known(&self) -> bool {
        self.missing.is_empty()
    }
}

/// The threads of this machine.
pub(crate) fn start(
    root: &Root,
    period: Duration,
    file_systems: FileSystems,
    externals: Vec<ExternalProvider>,
    programs: &Programs,
    found: &mpsc::UnboundedSender<Found>,
) -> std::io::Result<Vec<Sampler>> {
    let file_systems: Vec<Box<dyn Provider>> = vec![Box::new(file_systems)];
    let mut samplers = vec![spawn("file systems", file_systems, root, period, found)?];
    let mut quick = quick();
    match Gpus::load() {
        // A driver may hang.
        Some(gpus) => samplers.push(spawn("gpus", vec![Box::new(gpus)], root, period, found)?),
        // It comes first, so it is known when the others are, and a task that waits for GPUs is refused.
        None => quick.insert(0, Box::new(NoGpus)),
    }
    samplers.push(spawn("sampler", quick, root, period, found)?);
    for provider in externals {
        samplers.push(start_external(provider, programs, found)?);
    }
    Ok(samplers)
}

/// Has other programs provide than before. Those that are not among them any more are killed, and report nothing from
/// here on, not even that; those that are others by now are started anew. The rest goes on.
pub(crate) fn exchange(
    samplers: &mut Vec<Sampler>,
    before: &[ExternalProvider],
    after: &[ExternalProvider],
    programs: &Programs,
    found: &mpsc::UnboundedSender<Found>,
) -> std::io::Result<()> {
    for provider in before.iter().filter(|it| !after.contains(it)) {
        let is_its = |it: &Sampler| it.mark().is_some() && it.providers == [&*provider.name];
        if let Some(place) = samplers.iter().position(is_its) {
            let sampler = samplers.swap_remove(place);
            let mark = sampler.mark().map(str::to_owned);
            drop(sampler);
            programs.end_of(&mark.unwrap_or_default());
        }
    }
    for provider in after.iter().filter(|it| !before.contains(it)) {
        samplers.push(start_external(provider.clone(), programs, found)?);
    }
    Ok(())
}

/// The thread of an external provider. It ends when its sampler is dropped, and what it has running then is killed.
fn start_external(
    provider: ExternalProvider,
    programs: &Programs,
    found: &mpsc::UnboundedSender<Found>,
) -> std::io::Result<Sampler> {
    let (asks, asked) = channel();
    let (telling, alive) = Telling::new(found);
    let providers = vec![provider.name.clone()];
    let takes_asks = !provider.is_long_lived();
    let mark = programs.mark_of(&provider.name);
    let its = mark.clone();
    let serve = move || external::serve(&provider, its, &asked, &telling);
    std::thread::Builder::new().name("provider".to_owned()).spawn(serve)?;
    Ok(Sampler { providers, asks, takes_asks, mark: Some(mark), _alive: alive })
}

fn spawn(
    name: &str,
    mut providers: Vec<Box<dyn Provider>>,
    root: &Root,
    period: Duration,
    found: &mpsc::UnboundedSender<Found>,
) -> std::io::Result<Sampler> {
    let (asks, asked) = channel();
    let names = providers.iter().map(|provider| provider.name().to_owned()).collect();
    let (root, (telling, alive)) = (root.clone(), Telling::new(found));
    let serve = move || serve(&mut providers, &root, period, &asked, &telling);
    std::thread::Builder::new().name(name.to_owned()).spawn(serve)?;
    Ok(Sampler { providers: names, asks, takes_asks: true, mark: None, _alive: alive })
}

/// Until nobody listens any more.
fn serve(
    providers: &mut [Box<dyn Provider>],
    root: &Root,
    period: Duration,
    asked: &Receiver<Ask>,
    telling: &Telling,
) {
    let mut round = 0;
    let mut due_ns = clock::monotonic_ns();
    loop {
        let now_ns = clock::monotonic_ns();
        let ask = if now_ns >= due_ns {
            // Beats that were missed, as by a machine that slept, are not made up for.
            due_ns = (due_ns + period.as_nanos() as u64).max(now_ns);
            None
        } else {
            match asked.recv_timeout(Duration::from_nanos(due_ns - now_ns)) {
                Ok(ask) => Some(ask),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        };
        for provider in providers.iter_mut() {
            let name = provider.name();
            let is_wanted = match &ask {
                Some(ask) => ask.only.as_ref().is_none_or(|only| only.iter().any(|it| it == name)),
                None => round % periods(name) == 0,
            };
            if is_wanted {
                let at = moment();
                let sample = provider.sample(root, at);
                if !telling.tell(Found::BuiltIn { provider: name, sample, at: at.now }) {
                    return;
                }
            }
        }
        match ask {
            Some(ask) => drop(telling.tell(Found::Asked(ask.done))),
            None => round += 1,
        }
    }
}

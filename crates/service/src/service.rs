//! The service: what was found goes into the table, what is asked is answered from it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use hyper::header::ACCEPT;
use hyper::{Method, StatusCode};
use rakuda_agent::providers::{ExternalProvider, check_name};
use rakuda_info::Time;
use rakuda_info::catalogue::BUILT_IN;
use rakuda_info::expression::Expression;
use rakuda_info::external;
use rakuda_info::format::fragments::Fragments;
use rakuda_info::format::{Ages, Format, json, metrics};
use rakuda_info::provider::{self, FileSystems, Provider, Root, quick};
use rakuda_info::query::{Answer, Followed, Query, Question, QuestionError, oldest};
use rakuda_info::registered::{Refused, Registrations, Taken};
use rakuda_info::registry::Registry;
use rakuda_info::table::{NodeId, State, Table};
use rakuda_info::value::Kind;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

use crate::freshness::Freshness;
use crate::http::{self, Asked, Body, Gate, Reply};
use crate::nvml::{Gpus, NoGpus};
use crate::registration::{self, Registration};
use crate::sampling::{self, Ask, Found, Programs, Sampler, moment};
use crate::sources::{Said, Sources};
use crate::token::Token;

/// Timeout for values that are asked for fresh.
const FRESH_TIME: Duration = Duration::from_secs(5);
/// Timeout for the first sample: whoever has started the service waits for its address.
const READY_TIME: Duration = Duration::from_millis(1500);
/// Timeout for telling others that this service ends.
const LEAVE_TIME: Duration = Duration::from_secs(1);
/// Time between two looks whether other nodes have reported.
const LOOK: Duration = Duration::from_millis(5);
/// Time between two looks whether a service that registers here has fallen silent.
const SILENCE_LOOK: Duration = Duration::from_millis(250);
/// Time after which names that nothing has are reported: services that register bring names of their own.
const OTHERS_TIME: Duration = Duration::from_secs(60);
/// Below it are the requests of services that register.
const SOURCES: &str = "/v1/sources/";
/// Time for which what a provider that registers has said holds, unless it says otherwise.
const VALIDITY_NS: u64 = 30_000_000_000;
/// Minimum and maximum of that time.
const VALIDITIES_NS: std::ops::RangeInclusive<u64> = 1_000_000_000..=86_400_000_000_000;
/// Minimum time between two events to one client.
const EVENT_TIME: Duration = Duration::from_millis(100);
/// Time without an event after which the service tells a client that there is none, so that each end notices when the
/// other is gone.
const SILENCE: Duration = Duration::from_secs(15);
/// Time between the two looks of [`sample_once`], which rates and shares are of.
const BETWEEN: Duration = Duration::from_millis(200);

/// How a service is to be.
#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Its token.
    pub token_file: PathBuf,
    /// Time between two samples.
    pub period: Duration,
    /// Folders whose file systems are watched. Empty: all that keep data.
    pub watched: Vec<String>,
    /// Programs that provide.
    pub externals: Vec<ExternalProvider>,
    /// This machine is one of the nodes.
    pub has_own: bool,
    /// What this machine is called, when that is not its host name.
    pub name: Option<String>,
    /// Answers have no older values, as far as newer ones can be had.
    pub validity: Freshness,
    /// Time after which nodes of services that register here are removed when they are down.
    pub keep_down: Duration,
}

/// Why there is no service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// It cannot listen there.
    #[error("listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// It has no token.
    #[error(transparent)]
    Token(#[from] crate::token::TokenError),
    /// It cannot sample.
    #[error("start the threads that sample: {0}")]
    Threads(std::io::Error),
}

struct Inner {
    table: Table,
    /// Of the table.
    fragments: Fragments,
    /// This machine, where it is one of the nodes.
    own: Option<NodeId>,
    /// What was said of providers last, so that it is said once.
    complaints: BTreeMap<String, String>,
    /// Services that register here.
    sources: Sources,
    /// Providers that do.
    registered: Registrations,
}

/// Has providers of nodes sample now.
type Asker = Box<dyn Fn(Vec<String>)>;

/// A service that listens.
pub struct Service {
    inner: RefCell<Inner>,
    samplers: RefCell<Vec<Sampler>>,
    /// Where samplers send what they find.
    found: mpsc::UnboundedSender<Found>,
    changes: watch::Sender<u64>,
    address: SocketAddr,
    programs: Programs,
    /// Programs that provide, here or on the nodes that others report.
    externals: RefCell<Vec<ExternalProvider>>,
    complain: fn(&str),
    validity: Freshness,
    keep_down: Duration,
    /// Services that it has registered with: how each learns that this one ends.
    registered: RefCell<Vec<(oneshot::Sender<()>, tokio::task::JoinHandle<()>)>>,
    /// Has nodes that others report sampled now, by these providers.
    ask_others: RefCell<Option<Asker>>,
}

impl Service {
    /// Starts to sample and to listen, on the runtime and local set that it is called in. `complain` tells people what
    /// is wrong with providers. What others report is in the table already.
    pub async fn start(
        config: ServiceConfig,
        mut table: Table,
        complain: fn(&str),
    ) -> Result<Rc<Self>, ServiceError> {
        let token = Token::in_file(&config.token_file)?;
        let failed = |source| ServiceError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (found, news) = mpsc::unbounded_channel();
        let (programs, externals) = (Programs::new(), RefCell::new(config.externals.clone()));
        let root = Root::new("/");
        let samplers = if config.has_own {
            let file_systems = FileSystems::new(config.watched);
            sampling::start(&root, config.period, file_systems, config.externals, &programs, &found)
                .map_err(ServiceError::Threads)?
        } else {
            Vec::new()
        };
        let host = host_name();
        let own_name = config.name.as_ref().unwrap_or(&host);
        let own = config.has_own.then(|| table.node(None, own_name));
        let inner = RefCell::new(Inner {
            table,
            fragments: Fragments::new(),
            own,
            complaints: BTreeMap::new(),
            sources: Sources::default(),
            registered: Registrations::default(),
        });
        let (changes, _) = watch::channel(0);
        let service = Rc::new(Self {
            inner,
            samplers: RefCell::new(samplers),
            found,
            changes,
            address,
            programs,
            externals,
            complain,
            validity: config.validity,
            keep_down: config.keep_down,
            registered: RefCell::default(),
            ask_others: RefCell::default(),
        });
        tokio::task::spawn_local(Rc::clone(&service).note_all(news));
        tokio::task::spawn_local(Rc::clone(&service).note_silence());
        let gate = Gate::new(token, host).with_partners(SOURCES);
        let asked = Rc::clone(&service);
        tokio::task::spawn_local(http::serve(listener, gate, move |request| {
            Rc::clone(&asked).respond(request)
        }));
        Ok(service)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets its caller report other nodes, and passes on what changes.
    pub fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let Inner { table, .. } = &mut *self.inner.borrow_mut();
        let result = change(table);
        let newest = table.change();
        self.changes.send_if_modified(|known| std::mem::replace(known, newest) != newest);
        result
    }

    /// Looks at what is known, or at what of it was passed on.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Table) -> T) -> T {
        look(&self.inner.borrow().table)
    }

    /// Notified when something has changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Tells people what is wrong.
    pub(crate) fn complain(&self, what: &str) {
        (self.complain)(what);
    }

    /// Reports all nodes to another service from now on.
    pub fn register(self: &Rc<Self>, registration: Registration) {
        let (end, ended) = oneshot::channel();
        let task = registration::serve(Rc::clone(self), registration, ended);
        self.registered.borrow_mut().push((end, tokio::task::spawn_local(task)));
    }

    /// Reports to those that it has registered with that it ends, as far as they listen.
    pub async fn leave(&self) {
        let all: Vec<_> = self.registered.take();
        let tasks = all.into_iter().map(|(end, task)| {
            // It looks for that as long as it is there.
            let _ = end.send(());
            task
        });
        let tasks: Vec<_> = tasks.collect();
        let _ = tokio::time::timeout(LEAVE_TIME, async {
            for task in tasks {
                let _ = task.await;
            }
        })
        .await;
    }

    /// Sets what has providers of them sample when fresh values are asked for.
    pub fn set_asker(&self, ask: impl Fn(Vec<String>) + 'static) {
        self.ask_others.replace(Some(Box::new(ask)));
    }

    /// Waits until the first sample is there, or until it should be.
    pub async fn be_ready(&self) {
        let first = ["host", "load", "memory"].map(str::to_owned);
        let sampled = Freshness::of_all(u64::MAX).only(Some(&first));
        // What is missing then comes later.
        let _ = tokio::time::timeout(READY_TIME, self.refresh(&sampled)).await;
    }

    /// From now on these programs provide, in place of those before ([`sampling::exchange`]); values of those that are
    /// not among them any more are undefined.
    pub fn set_externals(&self, externals: &[ExternalProvider]) -> std::io::Result<()> {
        let before = self.externals.replace(externals.to_vec());
        for provider in externals {
            let Inner { table, registered, .. } = &mut *self.inner.borrow_mut();
            registered.end_all_of(table, &provider.name, moment().now);
        }
        let Some(own) = self.inner.borrow().own else { return Ok(()) };
        for provider in before.iter().filter(|it| !externals.contains(it)) {
            self.inner.borrow_mut().complaints.remove(&provider.name);
            if externals.iter().all(|it| it.name != provider.name) {
                self.change(|table| external::forget(table, own, &provider.name, moment().now));
            }
        }
        let mut samplers = self.samplers.borrow_mut();
        sampling::exchange(&mut samplers, &before, externals, &self.programs, &self.found)
    }

    /// Tells people which names of `validity` nothing has. Programs that provide more may have one, so it waits for
    /// them, and for a while for other services where only those bring nodes.
    pub async fn tell_unknown(self: Rc<Self>) {
        let names = |table: &Table| {
            let providers: Vec<String> =
                self.externals.borrow().iter().map(|it| it.name.clone()).collect();
            let has_told =
                |name: &String| table.nodes().any(|(row, _)| external::has_told(table, row, name));
            let is_known = !table.is_empty() && providers.iter().all(has_told);
            (is_known, self.validity.unknown(table.registry(), &providers))
        };
        loop {
            let (is_known, unknown) = self.look(names);
            if unknown.is_empty() {
                return;
            }
            if is_known {
                break;
            }
            tokio::time::sleep(SILENCE_LOOK).await;
        }
        if self.inner.borrow().own.is_none() {
            tokio::time::sleep(OTHERS_TIME).await;
        }
        for name in self.look(names).1 {
            let hint = self.look(|table| near(&name, table.registry()));
            self.complain(&format!(
                "--validity: nothing is called {name} so far, neither a provider nor an attribute{hint}"
            ));
        }
    }

    /// Kills what external providers have running.
    pub fn end(&self) {
        self.programs.end();
    }

    /// Services that register here may fall silent.
    async fn note_silence(self: Rc<Self>) {
        loop {
            tokio::time::sleep(SILENCE_LOOK).await;
            let now = moment().now;
            let Inner { table, sources, registered, .. } = &mut *self.inner.borrow_mut();
            registered.note_silence(table, now);
            sources.note_silence(table, now);
            sources.remove_long_down(table, now, self.keep_down.as_nanos() as u64);
            let newest = table.change();
            self.changes.send_if_modified(|known| std::mem::replace(known, newest) != newest);
        }
    }

    async fn note_all(self: Rc<Self>, mut news: mpsc::UnboundedReceiver<Found>) {
        while let Some(found) = news.recv().await {
            self.note(found);
            let change = self.inner.borrow().table.change();
            self.changes.send_if_modified(|known| std::mem::replace(known, change) != change);
        }
    }

    fn note(&self, found: Found) {
        let Inner { table, own: Some(own), complaints, .. } = &mut *self.inner.borrow_mut() else {
            return;
        };
        if let Found::External { provider, .. } | Found::Failed { provider, .. } = &found
            && self.externals.borrow().iter().all(|it| it.name != *provider)
        {
            // It was on its way when its provider was removed.
            return;
        }
        let (provider, told) = match found {
            Found::BuiltIn { provider, sample, at } => {
                provider::note(table, *own, provider, &sample, at);
                return;
            }
            Found::External { provider, output, is_line, at } => {
                let told = external::note(table, *own, &provider, &output, is_line, at);
                (provider, told.join("; "))
            }
            Found::Failed { provider, why, at } => {
                external::fail(table, *own, &provider, &why, at);
                (provider, why)
            }
            Found::Asked(done) => {
                // The asker may have gone.
                let _ = done.send(());
                return;
            }
        };
        if told.is_empty() {
            complaints.remove(&provider);
        } else if complaints.get(&provider) != Some(&told) {
            (self.complain)(&format!("provider {provider}: {told}"));
            complaints.insert(provider, told);
        }
    }

    async fn respond(self: Rc<Self>, asked: Asked) -> Reply {
        let path: Vec<&str> = asked.parts.iter().map(String::as_str).collect();
        match (&asked.method, path.as_slice()) {
            (&Method::GET, ["v1", "nodes"]) => self.nodes(&asked).await,
            (&Method::GET, ["v1", "attributes"]) => self.attributes(),
            (&Method::GET, ["metrics"]) => self.metrics(&asked),
            (&Method::POST, ["v1", "sources", name]) => self.hear(name, &asked),
            (&Method::GET, ["v1", "sources", name, "wishes"]) => self.wishes(name),
            (&Method::PUT, ["v1", "nodes", node, "attributes", name]) => {
                self.set(node, name, &asked.body)
            }
            (&Method::PUT, ["v1", "nodes", node, "providers", name]) => {
                self.take(node, name, &asked)
            }
            (&Method::DELETE, ["v1", "nodes", node, "providers", name]) => {
                self.end_registered(node, name)
            }
            (_, ["v1", "nodes" | "attributes"] | ["metrics"] | ["v1", "sources", _, "wishes"]) => {
                Reply::not_allowed(&asked, "GET, HEAD")
            }
            (_, ["v1", "sources", _]) => Reply::not_allowed(&asked, "POST"),
            (_, ["v1", "nodes", _, "attributes", _]) => Reply::not_allowed(&asked, "PUT"),
            (_, ["v1", "nodes", _, "providers", _]) => Reply::not_allowed(&asked, "PUT, DELETE"),
            _ => Reply::error(
                StatusCode::NOT_FOUND,
                "expected /v1/nodes, /v1/attributes, /v1/nodes/NODE/attributes/NAME, /v1/nodes/NODE/providers/NAME, /v1/sources/NAME or /metrics",
            ),
        }
    }

    async fn nodes(self: Rc<Self>, asked: &Asked) -> Reply {
        let wanted = match Wanted::of(&asked.query) {
            Ok(wanted) => wanted,
            Err(message) => return Reply::error(StatusCode::BAD_REQUEST, &message),
        };
        let accept = asked.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
        let is_stream = accept.is_some_and(|accept| accept.contains("text/event-stream"));
        let wished = wanted.max_age_ns.map(Freshness::of_all);
        let freshness = wished.as_ref().unwrap_or(&self.validity);
        if !freshness.is_any() {
            let query = match self.query(&wanted.question) {
                Ok(query) => query,
                Err(error) => return bad_question(&error),
            };
            let freshness = self.look(|table| {
                let providers = query.providers(table.registry());
                let needed = query.needed();
                freshness.resolved(table.registry(), needed.as_deref()).only(providers.as_deref())
            });
            self.refresh(&freshness).await;
        }
        let query = match self.query(&wanted.question) {
            Ok(query) => query,
            Err(error) => return bad_question(&error),
        };
        if is_stream {
            return self.events(wanted.question);
        }
        let text = self.text(&query, wanted.format, wanted.ages);
        Reply::new(StatusCode::OK, wanted.format.content_type(), text)
    }

    fn text(&self, query: &Query, format: Format, ages: Ages) -> Vec<u8> {
        let Inner { table, fragments, .. } = &mut *self.inner.borrow_mut();
        let now = moment().now;
        match (format, query.whole_rows(table, now)) {
            (Format::Json, Some(nodes)) => fragments.write(table, &nodes, now),
            _ => format.write(&query.answer(table, now), table, ages, query.only()).into_bytes(),
        }
    }

    /// Understood anew each time: there may be more attributes.
    fn query(&self, question: &Question) -> Result<Query, QuestionError> {
        Query::new(question, self.inner.borrow().table.registry())
    }

    /// An event at once, then one when something has changed: that alone, or of groups all.
    fn events(self: Rc<Self>, question: Question) -> Reply {
        let mut changes = self.changes.subscribe();
        changes.mark_changed();
        let changes = Rc::new(tokio::sync::Mutex::new((changes, Followed::default(), true)));
        let question = Rc::new(question);
        let body = Body::events(move || {
            let (service, changes) = (Rc::clone(&self), Rc::clone(&changes));
            let question = Rc::clone(&question);
            Box::pin(async move {
                let (changes, followed, is_first) = &mut *changes.lock().await;
                let silence = tokio::time::sleep(SILENCE);
                let mut silence = std::pin::pin!(silence);
                loop {
                    tokio::select! {
                        changed = changes.changed() => changed.ok()?,
                        () = &mut silence => return Some(": nothing new\n\n".into()),
                    }
                    if !*is_first {
                        // What changes meanwhile is sent with it.
                        tokio::time::sleep(EVENT_TIME).await;
                        changes.mark_unchanged();
                    }
                    let query = service.query(&question).ok()?;
                    let now = moment().now;
                    let answer = service.look(|table| query.answer_next(table, now, followed));
                    let text = event_text(answer, std::mem::take(is_first));
                    if !text.is_empty() {
                        return Some(text.into());
                    }
                }
            })
        });
        Reply::events(body)
    }

    /// Waits for samples of what is older, all at once, but no longer than the limit.
    pub(crate) async fn refresh(&self, freshness: &Freshness) {
        let now = moment().now;
        let is_stale = |provider: &String| {
            let Some(age_ns) = freshness.of(provider) else { return false };
            let inner = self.inner.borrow();
            let sampled = inner.own.and_then(|own| oldest(&inner.table, own, provider));
            sampled.is_none_or(|sampled| now.0.saturating_sub(sampled.0) > age_ns)
        };
        let mut waited = Vec::new();
        for sampler in &*self.samplers.borrow() {
            let only: Vec<String> =
                sampler.providers.iter().filter(|name| is_stale(name)).cloned().collect();
            let (done, is_done) = oneshot::channel();
            if !only.is_empty() && sampler.ask(Ask { only: Some(only), done }) {
                waited.push(is_done);
            }
        }
        let wished = {
            let Inner { table, sources, .. } = &mut *self.inner.borrow_mut();
            sources.ask(freshness, table, now)
        };
        let asks = self.ask_others.borrow().as_ref().map(|ask| {
            let older = self.older_of_others(freshness, now);
            let is_stale = !older.is_empty();
            if is_stale {
                ask(older);
            }
            is_stale
        });
        let all = async {
            for is_done in waited {
                let _ = is_done.await;
            }
            for (mut answered, number) in wished {
                // A service that was forgotten answers no more.
                let _ = answered.wait_for(|answered| *answered >= number).await;
            }
            while asks == Some(true) && !self.older_of_others(freshness, now).is_empty() {
                tokio::time::sleep(LOOK).await;
            }
        };
        // What is still old then is given with its age.
        let _ = tokio::time::timeout(FRESH_TIME, all).await;
    }

    /// Providers whose values are older than they may be at that time, on a node that agents report and that is up.
    fn older_of_others(&self, freshness: &Freshness, now: Time) -> Vec<String> {
        let Inner { table, own, sources, .. } = &*self.inner.borrow();
        let is_of_agent = |id: NodeId| Some(id) != *own && !sources.owns(id);
        let up = table.nodes().filter(|(id, node)| is_of_agent(*id) && node.state == State::Up);
        let up: Vec<NodeId> = up.map(|(id, _)| id).collect();
        let externals = self.externals.borrow();
        // Those of users, of programs that tell by themselves, and of such as were removed are not.
        let is_sampled = |name: &str| {
            BUILT_IN.iter().any(|it| it.provider == name)
                || externals.iter().any(|it| it.name == name && !it.is_long_lived())
        };
        let names = table.registry().iter().map(|(_, it)| it.provider.as_str());
        let names: BTreeSet<&str> = names.filter(|name| is_sampled(name)).collect();
        let is_older = |name: &&str| {
            let Some(age_ns) = freshness.of(name) else { return false };
            let since = now.0.saturating_sub(age_ns);
            up.iter().any(|id| {
                let sampled = || oldest(table, *id, name);
                !external::has_failed(table, *id, name)
                    && sampled().is_some_and(|sampled| sampled.0 < since)
            })
        };
        names.into_iter().filter(is_older).map(str::to_owned).collect()
    }

    /// A service tells of its nodes.
    fn hear(&self, name: &str, asked: &Asked) -> Reply {
        let of = |wanted: &str| asked.of(wanted);
        let said = (|| {
            Some(Said {
                session: of("session").filter(|it| !it.is_empty())?.to_owned(),
                validity_ns: rakuda_info::duration_ns(of("validity")?)?,
                answered: of("answered").map_or(Some(0), |number| number.parse().ok())?,
                begins: of("begins").is_some(),
                is_last: of("last").is_some(),
            })
        })();
        let Some(said) = said.filter(|_| !name.is_empty()) else {
            let expected = "expected /v1/sources/NAME?session=ID&validity=TIME";
            return Reply::error(StatusCode::BAD_REQUEST, expected);
        };
        let Inner { table, sources, .. } = &mut *self.inner.borrow_mut();
        let taken = sources.take(name, &said, &asked.body, table, moment().now);
        let newest = table.change();
        self.changes.send_if_modified(|known| std::mem::replace(known, newest) != newest);
        match taken {
            Ok(()) => Reply::new(StatusCode::OK, "application/json", "{\"version\":2}"),
            Err(refused) => Reply::error(refused.status(), &refused.to_string()),
        }
    }

    /// What a service is to have sampled, as events.
    fn wishes(&self, name: &str) -> Reply {
        let Some(mut wishes) = self.inner.borrow().sources.wishes(name) else {
            let message = format!("no service {name} has registered");
            return Reply::error(StatusCode::NOT_FOUND, &message);
        };
        wishes.mark_changed();
        let wishes = Rc::new(tokio::sync::Mutex::new(wishes));
        Reply::events(Body::events(move || {
            let wishes = Rc::clone(&wishes);
            Box::pin(async move {
                let mut wishes = wishes.lock().await;
                loop {
                    wishes.changed().await.ok()?;
                    let wish = wishes.borrow_and_update().clone();
                    if let Some(text) = wish.and_then(|wish| serde_json::to_string(&wish).ok()) {
                        return Some(format!("data: {text}\n\n").into());
                    }
                }
            })
        }))
    }

    fn attributes(&self) -> Reply {
        let inner = self.inner.borrow();
        let mut names: Vec<String> = inner
            .table
            .registry()
            .iter()
            .map(|(_, it)| {
                let kind = if it.kind == Kind::Number { "number" } else { "text" };
                let [name, unit, provider] = [&it.name, &it.unit, &it.provider].map(|text| json::text(text));
                format!("{{\"name\":{name},\"unit\":{unit},\"kind\":\"{kind}\",\"provider\":{provider}}}")
            })
            .collect();
        names.sort_unstable();
        let text = format!("{{\"version\":2,\"attributes\":[{}]}}", names.join(","));
        Reply::new(StatusCode::OK, "application/json", text)
    }

    fn metrics(&self, asked: &Asked) -> Reply {
        let accept = asked.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
        let format = metrics::Format::of(accept);
        let text = metrics::write(&self.inner.borrow().table, moment().now, format);
        Reply::new(StatusCode::OK, format.content_type(), text)
    }

    fn set(&self, node: &str, name: &str, body: &[u8]) -> Reply {
        let bad = |message: &str| Reply::error(StatusCode::BAD_REQUEST, message);
        let Inner { table, .. } = &mut *self.inner.borrow_mut();
        let Some(node) = table.find_node(node) else {
            return Reply::error(StatusCode::NOT_FOUND, &format!("there is no node {node}"));
        };
        let Ok(line) = std::str::from_utf8(body) else { return bad("the value is not UTF-8") };
        match external::set_by_user(table, node, name, line, moment().now) {
            Ok(()) => {
                self.changes.send_replace(table.change());
                Reply::new(StatusCode::OK, "application/json", "{\"version\":2}")
            }
            Err(why) => bad(&why),
        }
    }
}

impl Service {
    /// The node that a provider of that name may register for, or why it may not.
    fn node_for(&self, node: &str, provider: &str) -> Result<NodeId, Reply> {
        let Inner { table, sources, .. } = &*self.inner.borrow();
        let refuse = |status, message: &str| Err(Reply::error(status, message));
        if let Err(why) = check_name(provider) {
            return refuse(StatusCode::BAD_REQUEST, &format!("provider {provider:?}: {why}"));
        }
        let Some(id) = table.find_node(node) else {
            return refuse(StatusCode::NOT_FOUND, &format!("there is no node {node}"));
        };
        if sources.owns(id) {
            let message = format!("another service tells of node {node}; register with that one");
            return refuse(StatusCode::CONFLICT, &message);
        }
        if self.externals.borrow().iter().any(|it| it.name == provider) {
            let message = format!("this service runs a provider {provider} itself");
            return refuse(StatusCode::CONFLICT, &message);
        }
        Ok(id)
    }

    /// A provider that another program has started says something, and registers with that.
    fn take(&self, node: &str, name: &str, asked: &Asked) -> Reply {
        let id = match self.node_for(node, name) {
            Ok(id) => id,
            Err(refusal) => return refusal,
        };
        let validity = asked.of("validity").map_or(Some(VALIDITY_NS), rakuda_info::duration_ns);
        let Some(validity_ns) = validity.filter(|it| VALIDITIES_NS.contains(it)) else {
            let message = "validity: expected a time from 1s to 1d, such as 30s";
            return Reply::error(StatusCode::BAD_REQUEST, message);
        };
        let Inner { table, registered, .. } = &mut *self.inner.borrow_mut();
        let taken = registered.take(table, (id, name), validity_ns, &asked.body, moment().now);
        self.changes.send_replace(table.change());
        match taken {
            Ok(Taken { is_new, complaints }) => {
                let complaints: Vec<String> = complaints.iter().map(|it| json::text(it)).collect();
                let complaints = complaints.join(",");
                let text = format!("{{\"version\":2,\"new\":{is_new},\"refused\":[{complaints}]}}");
                Reply::new(StatusCode::OK, "application/json", text)
            }
            Err(why) => {
                let status = match why {
                    Refused::Full | Refused::Names(_) => StatusCode::SERVICE_UNAVAILABLE,
                    Refused::TooMuch(_) => StatusCode::TOO_MANY_REQUESTS,
                    Refused::Rubbish(_) => StatusCode::BAD_REQUEST,
                };
                Reply::error(status, &why.to_string())
            }
        }
    }

    /// One that has registered says that it ends.
    fn end_registered(&self, node: &str, name: &str) -> Reply {
        let id = match self.node_for(node, name) {
            Ok(id) => id,
            Err(refusal) => return refusal,
        };
        let Inner { table, registered, .. } = &mut *self.inner.borrow_mut();
        if !registered.end(table, (id, name), moment().now) {
            let message = format!("no provider {name} has registered for node {node}");
            return Reply::error(StatusCode::NOT_FOUND, &message);
        }
        self.changes.send_replace(table.change());
        Reply::new(StatusCode::OK, "application/json", "{\"version\":2}")
    }
}

/// What has changed, and in an event `gone` behind it which nodes were removed. The first one is never empty.
fn event_text(mut answer: Answer, is_first: bool) -> String {
    let (change, gone) = (answer.change, std::mem::take(&mut answer.gone));
    let is_told = is_first || !answer.is_empty();
    let told = is_told.then(|| format!("id: {change}\ndata: {}\n\n", json::write(&answer)));
    let removed = (!gone.is_empty()).then(|| {
        format!("id: {change}\nevent: gone\ndata: {}\n\n", json::write_gone(change, &gone))
    });
    [told, removed].into_iter().flatten().collect()
}

/// What may have been meant by a name, in parentheses. Empty if nothing is near.
fn near(name: &str, registry: &Registry) -> String {
    let hint = Expression::new(name, registry).err().and_then(|error| error.hint);
    hint.filter(|hint| hint.starts_with("did you mean"))
        .map_or_else(String::new, |hint| format!(" ({hint})"))
}

fn bad_question(error: &QuestionError) -> Reply {
    let text = json::write_error(&error.to_string(), Some(&error.error));
    Reply::new(StatusCode::BAD_REQUEST, "application/json", text)
}

/// The parameters of a query.
struct Wanted {
    question: Question,
    max_age_ns: Option<u64>,
    format: Format,
    ages: Ages,
}

impl Wanted {
    fn of(pairs: &[(String, String)]) -> Result<Self, String> {
        let mut wanted = Self {
            question: Question::default(),
            max_age_ns: None,
            format: Format::Json,
            ages: Ages::Asked,
        };
        let question = &mut wanted.question;
        for (index, (name, value)) in pairs.iter().enumerate() {
            if pairs[..index].iter().any(|(before, _)| before == name) {
                return Err(format!("{name}: expected once, found twice"));
            }
            let text = || Some(value.clone()).filter(|value| !value.trim().is_empty());
            let number = |what: &str| {
                value.parse().map_err(|_| format!("{name}: expected {what}, found {value:?}"))
            };
            match name.as_str() {
                "fields" => question.fields = text(),
                "where" => question.condition = text(),
                "sort" => question.sort = text(),
                "group_by" => question.group_by = text(),
                "only" => question.only = text(),
                "limit" => question.limit = Some(number("a number of rows")? as usize),
                "since" => question.since = Some(number("the number of a change")?),
                "max_age" => {
                    let age = rakuda_info::duration_ns(value);
                    let age = age.ok_or_else(|| {
                        format!("max_age: expected a time such as 100ms or 5s, found {value:?}")
                    })?;
                    wanted.max_age_ns = Some(age);
                }
                "format" => {
                    wanted.format = Format::of(value).ok_or_else(|| {
                        format!("format: expected json, csv, text or ldif, found {value:?}")
                    })?;
                }
                "ages" => {
                    wanted.ages = match value.as_str() {
                        "true" => Ages::All,
                        "false" => Ages::Asked,
                        _ => return Err(format!("ages: expected true or false, found {value:?}")),
                    }
                }
                _ => {
                    return Err(format!(
                        "{name:?} is no parameter; expected fields, where, sort, group_by, limit, since, only, max_age, ages or format"
                    ));
                }
            }
        }
        if let Some(why) = wanted.format.refusal(&wanted.question) {
            return Err(format!("format: {why}"));
        }
        Ok(wanted)
    }
}

/// What time it is for tables of this process.
pub fn now() -> Time {
    moment().now
}

/// Lets time pass, for what has nothing else to wait for.
pub fn pass(time: Duration) {
    let (_nobody, nothing) = std::sync::mpsc::channel::<()>();
    let _ = nothing.recv_timeout(time);
}

/// What this machine is called.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}

/// What this machine says of itself now. What rates and shares are of is looked at twice, a moment apart.
pub fn sample_once() -> Table {
    let mut table = Table::new();
    sample_into(&mut table);
    table
}

/// The same into a table that may have other nodes, too.
pub fn sample_into(table: &mut Table) {
    let own = table.node(None, &host_name());
    let mut providers = quick();
    let mut file_systems = FileSystems::new(Vec::new());
    let root = Root::new("/");
    let mut look = |provider: &mut dyn Provider| {
        let at = moment();
        let sample = provider.sample(&root, at);
        provider::note(table, own, provider.name(), &sample, at.now);
    };
    let is_of_rates = |name| matches!(name, "load" | "disks" | "network");
    for provider in providers.iter_mut().filter(|provider| is_of_rates(provider.name())) {
        look(&mut **provider);
    }
    pass(BETWEEN);
    // What may take longest comes first, so that nothing is older than it must be.
    look(&mut file_systems);
    for provider in &mut providers {
        look(&mut **provider);
    }
    match Gpus::load() {
        Some(mut gpus) => look(&mut gpus),
        None => look(&mut NoGpus),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_were_removed_have_an_event_of_their_own() {
        let mut answer = Answer {
            change: 7,
            now: Time(0),
            columns: None,
            is_grouped: false,
            rows: Vec::new(),
            left: vec!["a".into()],
            gone: vec!["a".into(), "b".into()],
            is_anew: false,
            is_old: false,
        };
        let gone = "id: 7\nevent: gone\n\
                    data: {\"version\":2,\"change\":7,\"nodes\":[],\"gone\":[\"a\",\"b\"]}\n\n";
        let left = "id: 7\ndata: {\"version\":2,\"change\":7,\"nodes\":[],\"left\":[\"a\"]}\n\n";
        assert_eq!(event_text(answer.clone(), false), format!("{left}{gone}"));
        answer.left.clear();
        assert_eq!(event_text(answer.clone(), false), gone);
        answer.gone.clear();
        assert_eq!(event_text(answer.clone(), false), "");
        assert_ne!(event_text(answer, true), "", "the first one is never empty");
    }

    #[test]
    fn parameters_of_a_query_are_checked() {
        let of = |name: &str, value: &str| Wanted::of(&[(name.to_owned(), value.to_owned())]);
        assert_eq!(of("max_age", "100ms").ok().unwrap().max_age_ns, Some(100_000_000));
        assert_eq!(of("limit", "3").ok().unwrap().question.limit, Some(3));
        assert_eq!(
            of("limit", "x").err().unwrap(),
            "limit: expected a number of rows, found \"x\""
        );
        let ldif = ["format=ldif", "group_by=arch"].map(|it| it.split_once('=').unwrap());
        let ldif = ldif.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let why = Wanted::of(&ldif).err().unwrap();
        assert!(why.starts_with("format: ldif has an entry for each node"), "{why}");
        assert!(of("wher", "1").err().unwrap().starts_with("\"wher\" is no parameter"));
        assert!(of("max_age", "-1s").is_err());
        assert_eq!(of("ages", "true").ok().unwrap().ages, Ages::All);
        assert_eq!(of("ages", "1").err().unwrap(), "ages: expected true or false, found \"1\"");
        let twice = ["load1", "os"].map(|it| ("fields".to_owned(), it.to_owned()));
        assert_eq!(Wanted::of(&twice).err().unwrap(), "fields: expected once, found twice");
    }
}

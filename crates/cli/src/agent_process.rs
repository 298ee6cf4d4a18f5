//! The agent of another node as a process, and the guard above it.
//!
//! As on the hub's machine there are two processes: the guard gets the processes that a killed agent leaves behind, and
//! kills them; when the guard is killed, the agent ends its commands and itself. The connection is the agent's alone,
//! so that its end is seen whichever of them dies.

use std::ffi::CString;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;

use anyhow::Context as _;
use rakuda_agent::remote::{self, AgentEnding, Dial, Provide, SaidOfNode, Surroundings};
use rakuda_agent::{EnvironmentBlock, processes, trees};
use rakuda_link::credentials::Credentials;
use rakuda_link::hub::{Reader, Writer};
use rakuda_link::invitation::Invitation;
use rakuda_link::stdio;
use rakuda_link::tcp::Dialler;
use rakuda_locate::private_mount;
use rakuda_proto::Text;
use rakuda_proto::cluster::AgentSettings;
use rakuda_service::Teller;

/// First argument of the agent below its guard.
pub const FLAG: &str = "--agent";

/// Maximum bytes of the credentials.
const CREDENTIALS_BYTES_MAX: u64 = 64 << 10;
/// Maximum threads that look at files. Some may hang, and their number must stay small.
const THREADS_MAX: usize = 32;

/// Starts the agent and waits for its end. `None`: the words are wrong.
pub fn guard(words: &[&str]) -> anyhow::Result<Option<u8>> {
    if HubTransport::new(words).is_none() {
        return Ok(None);
    }
    processes::set_name(processes::GUARD_NAME);
    processes::become_subreaper().context("take over orphaned processes")?;
    let mark = processes::new_mark();
    let outer = std::env::vars_os().find(|(name, _)| processes::is_mark(name));
    let outer = outer.map(|(_, value)| value.into_encoded_bytes());
    let mut variables: Vec<_> = std::env::vars_os().collect();
    variables.retain(|(name, _)| !processes::is_mark(name));
    variables.push(processes::marked(outer.as_deref(), &mark));
    let own = std::process::id().to_string();
    let all = [&["rakudad", FLAG, &own], words].concat();
    let words = all.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>()?;
    let agent = processes::start_myself(&words, &EnvironmentBlock::new(variables));
    let agent = agent.context("start the agent")?;
    let link = take_descriptors().context("let the connection go")?;
    drop(link);
    if processes::wait_for(agent.id) == processes::Ending::Exited(0) {
        return Ok(Some(0));
    }
    trees::kill_all_below(&[]);
    // An agent that was killed has not done it.
    private_mount::remove(&mark);
    Ok(Some(1))
}

/// The agent itself.
pub fn run(guard: i32, words: &[&str]) -> anyhow::Result<Option<u8>> {
    let Some(transport) = HubTransport::new(words) else { return Ok(None) };
    processes::set_name("rakuda-agent");
    if !processes::die_with_parent(guard, libc::SIGTERM) {
        anyhow::bail!("find the guard that started this process");
    }
    processes::become_subreaper().context("take over orphaned processes")?;
    let mark = processes::own_mark().context("find its mark in the environment")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS_MAX)
        .build()
        .context("start the runtime")?;
    let local = tokio::task::LocalSet::new();
    let ending = local.block_on(&runtime, transport.serve(&mark));
    // A thread that looks at a file on a server that hangs is not waited for.
    runtime.shutdown_background();
    private_mount::remove(&mark);
    match ending? {
        AgentEnding::Wanted => Ok(Some(0)),
        AgentEnding::CutOff(why) => {
            crate::complain(&format!("rakudad agent: ended, with its commands: {why}\n"));
            Ok(Some(1))
        }
    }
}

/// How the agent meets its hub.
enum HubTransport {
    Stdio,
    /// Where, and the file with the credentials (`-`: stdin).
    Tcp(String, String),
    /// The file with the invitation (`-`: stdin), and what the launcher says of the node.
    Join(String, SaidOfNode),
}

impl HubTransport {
    fn new(words: &[&str]) -> Option<Self> {
        match words {
            ["--stdio"] => Some(Self::Stdio),
            ["--connect", address, "--credentials", file] => {
                Some(Self::Tcp((*address).to_owned(), (*file).to_owned()))
            }
            ["--join", file, rest @ ..] => {
                Some(Self::Join((*file).to_owned(), said_of_node(rest)?))
            }
            _ => None,
        }
    }

    async fn serve(self, mark: &str) -> anyhow::Result<AgentEnding> {
        let descriptors = take_descriptors().context("take stdin and stdout")?;
        let inform = Rc::<Teller>::default();
        let surroundings = |said| Surroundings { provide: Folder(mark), inform, said, mark };
        match self {
            Self::Stdio => {
                let dial = Pipe(Some(descriptors));
                let surroundings = surroundings(SaidOfNode::default());
                Ok(remote::serve(dial, Text::default(), surroundings).await?)
            }
            Self::Tcp(address, file) => {
                let credentials = read_credentials(&file, descriptors.0)?;
                let dial = Network(Dialler::new(&address, &credentials)?);
                let surroundings = surroundings(SaidOfNode::default());
                Ok(remote::serve(dial, credentials.token, surroundings).await?)
            }
            Self::Join(file, said) => {
                let stdin = std::fs::File::from(descriptors.0);
                let Invitation { address, credentials } = match file.as_str() {
                    "-" => Invitation::read_from(stdin, "on stdin")?,
                    file => Invitation::read(Path::new(file))?,
                };
                let dial = Network(Dialler::new(&address, &credentials)?);
                Ok(remote::serve(dial, credentials.token, surroundings(said)).await?)
            }
        }
    }
}

/// `--name NAME` and `--cores N`, each at most once; a batch system that says nothing gives an empty word.
fn said_of_node(words: &[&str]) -> Option<SaidOfNode> {
    let mut said = SaidOfNode::default();
    for pair in words.chunks(2) {
        match pair {
            ["--name" | "--cores", ""] => {}
            ["--name", name] => said.name = Some((*name).to_owned()),
            ["--cores", cores] => said.cores = Some(cores.parse().ok().filter(|cores| *cores > 0)?),
            _ => return None,
        }
    }
    Some(said)
}

/// The run's folder, mounted if it has to be, for the agent of this mark.
struct Folder<'a>(&'a str);

impl Provide for Folder<'_> {
    async fn provide(&mut self, settings: &AgentSettings) -> Result<Text, String> {
        let Some(path) = &settings.gfarm_path else { return Ok(settings.directory.clone()) };
        let directory = settings.directory.as_path();
        let provided = private_mount::provide(directory, path.as_path(), self.0).await;
        let directory = provided.map_err(|error| error.to_string())?;
        Ok(Text(directory.into_os_string().into_encoded_bytes()))
    }
}

/// One connection, and no other.
struct Pipe(Option<(OwnedFd, OwnedFd)>);

impl Dial for Pipe {
    async fn dial(&mut self) -> Option<std::io::Result<(Reader, Writer)>> {
        let (input, output) = self.0.take()?;
        Some(stdio::reader(input).and_then(|reader| Ok((reader, stdio::writer(output)?))))
    }
}

/// Connections without end.
struct Network(Dialler);

impl Dial for Network {
    async fn dial(&mut self) -> Option<std::io::Result<(Reader, Writer)>> {
        Some(self.0.connect().await)
    }
}

fn read_credentials(file: &str, stdin: OwnedFd) -> anyhow::Result<Credentials> {
    if file != "-" {
        return Ok(Credentials::read(Path::new(file))?);
    }
    let mut bytes = Vec::new();
    let mut stdin = std::fs::File::from(stdin).take(CREDENTIALS_BYTES_MAX);
    stdin.read_to_end(&mut bytes).context("read credentials from stdin")?;
    Ok(Credentials::from_bytes(&bytes)?)
}

/// Takes descriptors 0 and 1, and leaves /dev/null in their place; what is printed then goes to stderr.
pub fn take_descriptors() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    let null = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((input, output))
}

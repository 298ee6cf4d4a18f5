//! `rakudactl ui`: the page of a run in a browser, live while the run goes on, then its report. A process beside the
//! run: it reads the journal and asks the hub what `rakudactl top` asks, and serves that on the one HTTP server.
//!
//! [`watch`] looks at the run, [`answers`] tells it, [`metrics`] in Prometheus' way; [`super::waiting`] asks for
//! what has not begun. It decides nothing about the run.

mod answers;
mod metrics;
mod watch;

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use rakuda_agent::processes;
use rakuda_service::http::{Gate, serve};
use rakuda_service::{Token, host_name};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::Status;
use super::base_folder::BaseFolder;
use super::which_run::RunOption;
use answers::Answers;
use watch::Watch;

/// Timeout for the pages of a run that has ended to ask for the report.
const GRACE: Duration = Duration::from_secs(20);
/// Time between two looks for a run that has not begun.
const BEGIN_TIME: Duration = Duration::from_millis(100);
/// Timeout for pages to read the report.
const REPORT_TIME: Duration = Duration::from_secs(120);

/// Shows a run in a browser: live while it goes on, then its report.
///
/// Prints the address to open. Whoever has the address may look; nothing of the run can be changed from there.
#[derive(Args)]
#[command(
    after_help = "Examples: the run that goes on here; one that has ended; a port that ssh -L can be given\n    \
    rakudactl ui\n    rakudactl ui 20261121-2305\n    rakudactl ui --listen 127.0.0.1:8400\n\n\
    It serves until Ctrl-C. `rakuda --ui` starts it with a run and ends it after the run."
)]
pub struct Ui {
    /// Which run.
    #[arg(value_name = "RUN", default_value = "last")]
    run: String,

    #[command(flatten)]
    run_option: RunOption,

    /// Listen there; port 0: any that is free.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Serve for the run of the process PID, which need not have begun yet: print the address, then nothing more; end
    /// when the run has ended and its pages have the report.
    #[arg(long, value_name = "PID", hide = true)]
    beside: Option<i32>,
}

impl Ui {
    /// Serves until a signal ends it, or its run and its pages are done.
    pub fn answer(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Status> {
        // A page is only answered under the address at which it is asked for.
        anyhow::ensure!(
            !self.listen.ip().is_unspecified(),
            "--listen {}: expected the address of one interface, such as 127.0.0.1:8400; from other machines use ssh -L",
            self.listen
        );
        let listener =
            StdListener::bind(self.listen).with_context(|| format!("listen on {}", self.listen))?;
        listener.set_nonblocking(true)?;
        let (address, token) = (listener.local_addr()?, Token::drawn());
        // In the fragment, which browsers send to nobody.
        let page = format!("http://{address}/#token={}", token.secret());
        let mut announce = |line: String| writeln!(out, "{line}").and_then(|()| out.flush());
        let watch = if let Some(front) = self.beside {
            if processes::fork().context("leave the run")?.is_some() {
                return Ok(Status::Good);
            }
            announce(format!("{page} {}", std::process::id()))?;
            leave_run()?;
            let Some(watch) = self.begun(base, front) else { return Ok(Status::Good) };
            watch
        } else {
            let watch = Watch::open(base.clone(), self.run_option.instead_of(&self.run))?;
            announce(page)?;
            crate::complain(&explanation(address));
            watch
        };
        processes::set_name("rakuda-ui");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("start the runtime")?;
        tokio::task::LocalSet::new().block_on(&runtime, self.serve(watch, listener, token))?;
        // What still looks at the run, in a thread, is not waited for.
        runtime.shutdown_background();
        Ok(Status::Good)
    }

    /// The run, once it has begun. `None`: its process has ended before.
    fn begun(&self, base: &BaseFolder, front: i32) -> Option<Watch> {
        loop {
            if let Ok(watch) = Watch::open(base.clone(), self.run_option.instead_of(&self.run)) {
                return Some(watch);
            }
            if !processes::goes_on(front) {
                return None;
            }
            rakuda_service::pass(BEGIN_TIME);
        }
    }

    async fn serve(&self, watch: Watch, listener: StdListener, token: Token) -> anyhow::Result<()> {
        let mut signals = Vec::new();
        for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
            signals.push(signal(kind).context("listen for signals")?);
        }
        let listener = TcpListener::from_std(listener)?;
        let answers = Rc::new(Answers::new(watch));
        let gate = Gate::new(token, host_name()).with_open(&["/"]);
        let asked = Rc::clone(&answers);
        tokio::task::spawn_local(serve(listener, gate, move |request| {
            Rc::clone(&asked).respond(request)
        }));
        let [terminate, interrupt, hangup] = &mut signals[..] else { return Ok(()) };
        let until_read = async {
            answers.watch().follow().await;
            if self.beside.is_none() {
                return std::future::pending().await;
            }
            tokio::time::sleep(GRACE).await;
            let _ = tokio::time::timeout(REPORT_TIME, answers.be_read()).await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
            () = until_read => {}
        }
        Ok(())
    }
}

fn explanation(address: SocketAddr) -> String {
    let port = address.port();
    format!(
        "rakudactl: open this address in a browser on this machine; from another one, first\n    \
         ssh -L {port}:{address} {}\nand there the same address. Ctrl-C ends this page, and not the run.\n",
        host_name()
    )
}

/// A program that reads what the run prints must not wait for this process.
fn leave_run() -> anyhow::Result<()> {
    processes::leave_terminal();
    let nothing =
        OpenOptions::new().read(true).write(true).open("/dev/null").context("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}

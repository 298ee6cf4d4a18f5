//! `rakudactl top`: a screen that shows a live run, until the user leaves. The run does not notice
//! but for a question a second; leaving leaves it alone.
//!
//! [`super::feed`] looks, [`view`] is what its user looks at, [`draw`] shows it, [`screen`] is the terminal. It decides
//! nothing about the run.

mod draw;
mod screen;
mod view;

use std::io::Write;
use std::os::fd::AsFd as _;

use clap::Args;
use rakuda_agent::signals::SignalQueue;
use ratatui_core::terminal::Terminal;
use rustix::event::Timespec;

use super::Status;
use super::base_folder::BaseFolder;
use super::feed::Feed;
use super::journal_tasks::Words;
use super::which_run::RunArgument;
use screen::Screen;
use view::{Asked, View};

/// Time between two looks, unless a key is pressed.
const EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Shows a run while it goes on: tasks that run, rules, nodes, failures with their output.
#[derive(Args)]
#[command(
    after_help = "Keys: q leaves (the run goes on), the arrows choose among failures, Page Up and Down go through running tasks, \
    / looks for tasks, ? shows all keys. Without a terminal it \
    prints how things are as text, once. Over ssh: ssh -t HOST rakudactl -C FOLDER top"
)]
pub struct Top {
    /// Show the run whose name begins with RUN, or the `last` that goes on.
    #[arg(long, value_name = "RUN")]
    run: Option<String>,

    #[command(flatten)]
    run_argument: RunArgument,

    /// Print how things are as text, once.
    #[arg(long)]
    text: bool,
}

impl Top {
    /// Shows the run until the user leaves.
    pub fn answer(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Status> {
        let mut feed = Feed::open(base, self.run_argument.or(self.run.as_deref()))?;
        #[allow(clippy::disallowed_methods, reason = "what the terminal is; it goes to no command")]
        let kind = std::env::var_os("TERM");
        if self.text || !Screen::is_there(kind.as_deref()) {
            if !self.text {
                crate::complain(
                    "rakudactl: top needs a terminal for its screen (over ssh: ssh -t); this is how things are now:\n",
                );
            }
            out.write_all(draw::lines(&feed.look(base, 0, &Words::default())?).as_bytes())?;
            return Ok(Status::Good);
        }
        let (signals, mask) = SignalQueue::new()?;
        let left = watch(&mut feed, base, &signals);
        // A signal that came has done its work: the terminal is given back.
        mask.restore();
        left?;
        Ok(Status::Good)
    }
}

fn watch(feed: &mut Feed, base: &BaseFolder, signals: &SignalQueue) -> anyhow::Result<()> {
    let mut terminal = Terminal::new(Screen::open()?)?;
    terminal.clear()?;
    let mut view = View::default();
    let mut page = 0;
    loop {
        let look = feed.look(base, view.chosen, &Words::of(&view.words))?;
        view.keep_within(look.failed.len(), look.running(), page);
        terminal.draw(|frame| page = draw::draw(&look, &view, frame.area(), frame.buffer_mut()))?;
        for key in Screen::keys(EVERY, signals.as_fd())? {
            match view.press(key, page) {
                Asked::Nothing => {}
                Asked::Leave => return Ok(()),
                Asked::Again => terminal.clear()?,
            }
        }
        while let Some(received) = signals.read() {
            if [libc::SIGTERM, libc::SIGHUP, libc::SIGINT].contains(&received.signal) {
                return Ok(());
            }
        }
    }
}

//! What fake agents have in common.

use rakuda_proto::agent::{AgentEvent, CommandId};
use rakuda_proto::front::Usage;
use tokio::sync::mpsc::UnboundedSender;

/// Ends a command after a few turns of the loop; `over` is called just before the hub hears of it.
pub fn end_soon(
    command: CommandId,
    status: i32,
    events: UnboundedSender<AgentEvent>,
    over: impl FnOnce() + 'static,
) {
    tokio::task::spawn_local(async move {
        for _ in 0..3 + command.0 % 5 {
            tokio::task::yield_now().await;
        }
        over();
        let ended = AgentEvent::CommandExited {
            command,
            status,
            process: 1,
            captured: None,
            error: None,
            usage: Usage::default(),
            lingers: false,
            is_outlived: false,
        };
        events.send(ended).expect("the hub listens");
    });
}

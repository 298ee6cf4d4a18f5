//! Begins the search for nodes that are not known yet: where the settings say that they come from.

use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;

use crate::context::Context;
use crate::nodes::Nodes;
use crate::plan::Origin;
use crate::reports::NodeEvent;
use crate::search::Search;
use crate::{slurm, template};

/// Begins to look for nodes that are not known yet. `None`: there will be no others.
pub(crate) fn await_nodes(context: &Context, nodes: &Rc<Nodes>) -> Option<Rc<Search>> {
    let search = Search::new(context, nodes)?;
    let plan = &context.plan;
    let (joinable, origin) = (plan.joinable, plan.origin.clone());
    let towards = plan.hosts.first().and_then(|host| host.name.rsplit('@').next());
    let towards = towards.map(str::to_owned);
    let whole = Rc::clone(&search);
    search.begin(async move {
        if joinable {
            invite_others(&whole, towards.as_deref()).await;
        }
        let found = match origin {
            Origin::Hosts | Origin::Own => return,
            Origin::Slurm(wish) => slurm::serve(&whole, wish).await,
            Origin::Launch(plan) => template::serve(&whole, &plan).await,
        };
        if let Err(why) = found {
            whole.launcher.tell(NodeEvent::AllAppeared(Err(why)));
        }
    });
    // Until now the code that began the thread counted it.
    context.searches.fetch_sub(1, SeqCst);
    Some(search)
}

/// Lets in agents with the run's invitation.
async fn invite_others(search: &Rc<Search>, towards: Option<&str>) {
    let invited = match search.listener(towards).await {
        Ok(listener) => listener.invite(),
        Err(why) => Err(why),
    };
    match invited {
        Ok((invitation, dial_ins)) => {
            search.launcher.tell(NodeEvent::Invited(invitation.to_text()));
            let whole = Rc::clone(search);
            search.begin(async move { whole.welcome_all(dial_ins).await });
        }
        Err(why) => search.launcher.tell(NodeEvent::Told(format!("no node can join: {why}"))),
    }
}

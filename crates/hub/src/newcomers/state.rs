//! What is known of nodes that come while a run goes on, and of those that are idle.

use std::path::PathBuf;

use rakuda_core::IdleNodes;
use rakuda_proto::front::RequirementDefinition;

/// Nodes that come while a run goes on, and nodes that are idle.
#[derive(Debug, Default)]
pub(crate) struct Newcomers {
    /// Requirements that name the nodes that may run them, by the front's numbers.
    pub(super) choosy: Vec<(u32, RequirementDefinition)>,
    /// The text with which a node may join; it is not written yet.
    pub(super) invitation: Option<String>,
    /// The file with it.
    pub(super) written: Option<InvitationFile>,
    /// Nodes that run nothing.
    pub(super) idle: IdleNodes,
}

/// Removed with the run.
#[derive(Debug)]
pub(super) struct InvitationFile(pub(super) PathBuf);

impl Drop for InvitationFile {
    fn drop(&mut self) {
        // If it is gone already, nothing is lost.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Newcomers {
    /// A requirement names nodes; those that come later are compared with it.
    pub fn note_choosy(&mut self, id: u32, definition: &RequirementDefinition) {
        self.choosy.push((id, definition.clone()));
    }

    pub fn set_invitation(&mut self, text: String) {
        self.invitation = Some(text);
    }

    pub fn due_ns(&self) -> Option<u64> {
        self.idle.due().map(|due| due.0)
    }
}

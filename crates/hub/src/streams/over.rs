//! What agents say of streams: ends, faults; accounts of several nodes brought together and checked.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_core::streams::{
    Account, EdgeAccounts, Imbalance, Over, Verdict, check_readers, fault_of_reports,
};
use rakuda_core::{Event, NodeId, Output, TaskId};
use rakuda_proto::Text;
use rakuda_proto::agent::STREAMS_FAILED;
use rakuda_proto::front::{ActionOutcome, HubMessage};
use rakuda_proto::journal::{JournalEvent, StreamNote, StreamsEnded, StreamsOpened};
use rakuda_proto::streams::{
    EndAccount, HopAccount, OpeningId, StreamAccount, StreamEnd, StreamEvent, StreamFault,
};

use super::network::{Edge, Edges, NotJoined};
use super::state::{HeldEnd, Opening};
use crate::hub::Hub;

/// A member that has failed after its action had ended well.
struct Culprit {
    task: TaskId,
    /// It is tried again.
    retried: bool,
}

impl Hub {
    /// What the agent of a node says of streams.
    pub(crate) fn on_stream_event(&mut self, node: NodeId, event: StreamEvent) {
        match event {
            StreamEvent::Stalled(id, streams) => self.on_stalled(id, node, &streams),
            StreamEvent::Passed(id, streams) => {
                self.streams.on_passed(id, node, streams);
                self.weigh_routes(id);
            }
            StreamEvent::Prepared(id, why_not) => self.on_prepared(id, node, why_not.as_ref()),
            StreamEvent::Switched(id) => self.on_switched(id, node),
            StreamEvent::MessageCost(ns) => self.streams.message_costs.set(node, ns),
            StreamEvent::LineRates(id, rates) => {
                self.streams.on_line_rates(self.now.time, id, node, &rates);
            }
            StreamEvent::SpoolBad(id, spool) => self.on_spool_bad(id, &spool),
            StreamEvent::Listening(id, addresses, socket) => {
                self.on_node_listens(id, node, (addresses, socket));
            }
            StreamEvent::Dialled(id, edge, why_not) => self.on_dialled(id, edge, node, why_not),
            StreamEvent::StdoutHeld(id, task, holders) => {
                self.streams.on_stdout_held(id, TaskId(task), holders);
            }
            StreamEvent::Unread(id, name) => self.streams.on_unread(id, node, &name),
            StreamEvent::Interrupted(id, accounts) => self.on_interrupted(id, node, accounts),
            StreamEvent::Ended(id, accounts, fault) => {
                self.on_node_over(id, node, accounts, fault);
            }
        }
    }

    /// Two nodes cannot be joined: the component fails.
    pub(crate) fn on_not_joined(&mut self, (id, why): NotJoined) {
        let fault = format!("could not open its streams: {why}");
        self.on_streams_over(id, &[], Some(fault.into()));
    }

    /// All has gone through on one node, or something is wrong there.
    fn on_node_over(
        &mut self,
        id: OpeningId,
        node: NodeId,
        accounts: Vec<StreamAccount>,
        fault: Option<StreamFault>,
    ) {
        if self.on_end_within_change(id, node) {
            return;
        }
        let Some(opening) = self.streams.open.get_mut(&id) else {
            return self.on_interrupted(id, node, accounts);
        };
        opening.interrupted.remove(&node);
        if let Some(told) = opening.nodes.get_mut(&node) {
            *told = Some(accounts);
        }
        opening.stalls.on_node_over(node);
        let is_last = opening.nodes.values().all(Option::is_some);
        if !opening.ending.is_over_with(is_last, fault.is_some()) {
            return self.tell_stalls(id);
        }
        let component = &self.streams.components[opening.component];
        let mut all = Vec::with_capacity(component.streams.len());
        let mut wrong = None;
        if opening.edges.all.is_empty() {
            all = opening.nodes.values().flatten().flatten().cloned().collect();
        } else {
            for number in 0..component.streams.len() {
                let name = &component.streams[number].name;
                match merged(opening, number, name) {
                    Ok(account) => all.push(account),
                    Err(why) => {
                        all.push(unchecked(opening, number, name));
                        wrong = Some(StreamFault::from(why));
                    }
                }
            }
        }
        self.on_streams_over(id, &all, fault_of_reports(is_last, fault, wrong));
    }

    pub(super) fn on_streams_over(
        &mut self,
        id: OpeningId,
        accounts: &[StreamAccount],
        fault: Option<StreamFault>,
    ) {
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        let words = fault.as_ref().map(|fault| fault.words.clone());
        let fault = fault.map(|fault| (fault.words, fault.task.map(TaskId)));
        let can_fail = |task| self.run.scheduler().spoilable_on(task).is_some();
        let runs_command = |task| self.commands.values().any(|command| command.task == Some(task));
        let over = opening.ending.on_over(fault, can_fail, runs_command);
        let Some(Over { verdict, held }) = over else { return };
        let (fault, place) = (words, opening.component);
        let text = fault.as_ref().map(|fault| self.with_names(fault)).unwrap_or_default();
        let culprit = match verdict {
            Verdict::Well | Verdict::Follows => None,
            Verdict::Blames(task) => {
                self.warn(&text);
                Some(self.blame(task, &text))
            }
            Verdict::Ends(_) => {
                self.warn(&text);
                None
            }
        };
        if verdict != Verdict::Well && !accounts.is_empty() {
            self.streams.components[place].interrupted = accounts.to_vec();
        }
        let follows = verdict == Verdict::Follows;
        self.note_streams_over(id, accounts, fault.as_ref(), culprit.as_ref(), follows);
        self.tell_additions(place, accounts);
        if let Verdict::Ends(members) = verdict {
            for task in members {
                self.signal_commands_of(task);
            }
        }
        let Some((task, HeldEnd { message, code })) = held else { return };
        self.close_streams(id);
        let (outcome, message) = match fault {
            None => (ActionOutcome::Ok, message),
            Some(fault) => (ActionOutcome::Failed, self.with_names(&fault).into_bytes()),
        };
        self.on_action_ended(task, outcome, &message, code);
    }

    /// Fails a member whose output is no good, though its action has ended well.
    fn blame(&mut self, task: TaskId, why: &str) -> Culprit {
        self.note_spoilt(task, why);
        self.link.push(&HubMessage::OutputSpoilt { task: task.0, reason: Text::from(why) });
        let before = self.outputs.len();
        self.event(Event::OutputSpoilt { id: task });
        let retried = self.outputs.iter().skip(before).any(|output| {
            matches!(output, Output::AttemptFailed { id, retried: true, .. } if *id == task)
        });
        Culprit { task, retried }
    }

    /// Reports, once for each stream, that a last line without newline got one.
    fn tell_additions(&mut self, place: usize, accounts: &[StreamAccount]) {
        let mut lines = Vec::new();
        for account in accounts {
            let added = account.writers.iter().filter(|writer| writer.is_special);
            let names: Vec<String> = added.map(|writer| self.name_of_end(&writer.end)).collect();
            if !names.is_empty() && place < self.streams.components.len() {
                lines.push(format!(
                    "stream {}: the last record of {} had no separator; one was added",
                    account.name.to_display(),
                    names.join(", ")
                ));
            }
        }
        for line in lines {
            self.warn(&line);
        }
    }

    fn name_of_end(&self, end: &StreamEnd) -> String {
        match end {
            StreamEnd::Task(task) => self.display_name(TaskId(*task)),
            StreamEnd::Spool(_) => "a spool".to_owned(),
            StreamEnd::Hop(edge) => format!("edge {edge}"),
        }
    }

    /// The agent's words, with names in the place of `task N`.
    pub(crate) fn with_names(&self, text: &Text) -> String {
        let text = text.to_display();
        let Some((before, after)) = text.split_once("task ") else { return text };
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        match after[..digits].parse().map(TaskId) {
            Ok(id) if (id.0 as usize) < self.names.len() => {
                format!("{before}task {}{}", self.display_name(id), &after[digits..])
            }
            _ => text,
        }
    }

    /// A fault in the words that the front gets in place of a command's end.
    pub(crate) fn stream_failure(&self, fault: &Text) -> Text {
        Text::from(format!("{STREAMS_FAILED}{}", self.with_names(fault)))
    }

    pub(super) fn note_streams_opened(
        &mut self,
        id: OpeningId,
        place: usize,
        node_of: &BTreeMap<TaskId, NodeId>,
        edges: &Edges,
        members: &[TaskId],
    ) {
        let component = &self.streams.components[place];
        let streams = component.streams.iter().enumerate().map(|(number, stream)| StreamNote {
            name: stream.name.clone(),
            record: stream.record,
            writers: stream.writers.clone(),
            readers: stream.readers.clone(),
            place: stream.place.clone(),
            meta: stream.meta.clone(),
            route: edges.routes.get(number).cloned(),
        });
        let streams = streams.collect();
        let nodes: BTreeSet<u32> = node_of.values().map(|node| node.0).collect();
        let event = JournalEvent::StreamsOpened(StreamsOpened {
            time_ns: self.now.journal_ns(),
            opening: id.0,
            node: nodes.first().copied().unwrap_or_default(),
            nodes: if nodes.len() > 1 { nodes.into_iter().collect() } else { Vec::new() },
            members: members.iter().map(|task| task.0).collect(),
            spooled: component.spooled,
            streams,
        });
        let all = component.members.clone();
        self.record.gang_started(self.run.scheduler(), &self.names, &event, &all);
    }

    /// `has_failed`: one of its members had, before.
    fn note_streams_over(
        &mut self,
        id: OpeningId,
        accounts: &[StreamAccount],
        fault: Option<&Text>,
        culprit: Option<&Culprit>,
        has_failed: bool,
    ) {
        self.note_streams_ended(StreamsEnded {
            time_ns: self.now.journal_ns(),
            opening: id.0,
            streams: accounts.to_vec(),
            fault: fault.cloned(),
            at_fault: culprit.map(|culprit| culprit.task.0),
            retried: culprit.is_some_and(|culprit| culprit.retried),
            interrupted: has_failed && fault.is_none(),
        });
    }

    pub(super) fn note_streams_ended(&mut self, ended: StreamsEnded) {
        let event = JournalEvent::StreamsEnded(ended);
        self.record.gang_started(self.run.scheduler(), &self.names, &event, &[]);
    }
}

/// What nodes have reported of a stream, put together as it is: they have looked at different moments.
pub(super) fn unchecked(opening: &Opening, number: usize, name: &Text) -> StreamAccount {
    let own: Vec<&StreamAccount> = opening.told().filter(|account| account.name == *name).collect();
    let edges = opening.edges.all.iter().zip(0..).filter(|(edge, _)| edge.stream == number);
    let hops = edges.filter_map(|(edge, index)| {
        let end = StreamEnd::Hop(index);
        let sent = own.iter().flat_map(|account| &account.readers).find(|one| one.end == end)?;
        Some(hop_account(edge, sent, sent.is_special))
    });
    let hops = hops.collect();
    whole(name, &own, hops)
}

fn hop_account(edge: &Edge, sent: &EndAccount, left: bool) -> HopAccount {
    HopAccount {
        from: edge.from.0,
        to: edge.to.0,
        line: edge.line,
        way: edge.way,
        bytes: sent.bytes,
        records: sent.records,
        left,
    }
}

/// The account of a whole stream: what its places report, and what went between them.
fn whole(name: &Text, own: &[&StreamAccount], hops: Vec<HopAccount>) -> StreamAccount {
    StreamAccount {
        name: name.clone(),
        writers: sum_of_tasks(own.iter().flat_map(|account| &account.writers)),
        readers: sum_of_tasks(own.iter().flat_map(|account| &account.readers)),
        memory_bytes_max: own.iter().map(|account| account.memory_bytes_max).sum(),
        spilled_bytes: own.iter().map(|account| account.spilled_bytes).sum(),
        spilled_bytes_max: own.iter().map(|account| account.spilled_bytes_max).sum(),
        hops,
    }
}

/// What went through a stream on all nodes. An error of Rakuda is the error here: an edge that does
/// not give out what went into it, or a reader that did not get what was written.
fn merged(opening: &Opening, number: usize, name: &Text) -> Result<StreamAccount, String> {
    let own: Vec<&StreamAccount> = opening.told().filter(|account| account.name == *name).collect();
    let mut hops = Vec::new();
    for (edge, index) in opening.edges.all.iter().zip(0..).filter(|(edge, _)| edge.stream == number)
    {
        let is_its = |one: &&EndAccount| one.end == StreamEnd::Hop(index);
        let sent = own.iter().flat_map(|account| &account.readers).find(is_its);
        let place = own.iter().find(|account| account.writers.iter().any(|one| is_its(&one)));
        let got = place.and_then(|place| place.writers.iter().find(is_its));
        let readers = place.into_iter().flat_map(|place| &place.readers).map(counted);
        let accounts = EdgeAccounts {
            sent: sent.map(counted),
            got: got.map(counted),
            readers_there: &readers.collect::<Vec<_>>(),
        };
        let left = accounts.is_left().map_err(|why| words_of(why, name))?;
        hops.extend(sent.map(|sent| hop_account(edge, sent, left)));
    }
    let account = whole(name, &own, hops);
    let readers = account.readers.iter().filter_map(|reader| match reader.end {
        StreamEnd::Task(task) => Some((TaskId(task), counted(reader))),
        StreamEnd::Spool(_) | StreamEnd::Hop(_) => None,
    });
    let checked = check_readers(account.writers.iter().map(counted), readers);
    checked.map_err(|why| words_of(why, name))?;
    Ok(account)
}

fn counted(end: &EndAccount) -> Account {
    let EndAccount { bytes, records, is_special, dropped, .. } = *end;
    Account { bytes, records, is_special, dropped }
}

fn words_of(why: Imbalance, name: &Text) -> String {
    let name = name.to_display();
    match why {
        Imbalance::Unknown => format!("stream {name}: an edge has no account"),
        Imbalance::Edge { sent, got } => format!(
            "stream {name}: {} bytes and {} records went into an edge, {} and {} came out; \
             this is an error of rakuda",
            sent.bytes, sent.records, got.bytes, got.records
        ),
        Imbalance::Reader { reader, got, written } => format!(
            "stream {name}: task {} got {} bytes and {} records of {} and {}; \
             this is an error of rakuda",
            reader.0, got.bytes, got.records, written.bytes, written.records
        ),
    }
}

/// What each task wrote or read, on all the routes that its stream has had.
fn sum_of_tasks<'ends>(ends: impl Iterator<Item = &'ends EndAccount>) -> Vec<EndAccount> {
    let mut sums: Vec<EndAccount> = Vec::new();
    for end in ends.filter(|one| matches!(one.end, StreamEnd::Task(_))) {
        match sums.iter_mut().find(|sum| sum.end == end.end) {
            Some(sum) => {
                // With a separator that was added on the one, nothing comes on the next.
                sum.bytes += end.bytes;
                sum.records += end.records;
                sum.dropped += end.dropped;
                sum.is_special |= end.is_special;
            }
            None => sums.push(end.clone()),
        }
    }
    sums
}

//! What agents say of streams: ends, faults; accounts of several nodes brought together and checked.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_core::{NodeId, TaskId};
use rakuda_proto::Text;
use rakuda_proto::agent::STREAMS_FAILED;
use rakuda_proto::front::ActionOutcome;
use rakuda_proto::journal::{JournalEvent, StreamNote, StreamsEnded, StreamsOpened};
use rakuda_proto::streams::{
    EndAccount, HopAccount, OpeningId, StreamAccount, StreamEnd, StreamEvent,
};

use super::network::Edges;
use super::network::NotJoined;
use super::state::{HeldEnd, Opening};
use crate::hub::Hub;

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
            StreamEvent::Ended(id, accounts, fault) => {
                self.on_node_over(id, node, accounts, fault);
            }
        }
    }

    /// Two nodes cannot be joined: the component fails.
    pub(crate) fn on_not_joined(&mut self, (id, why): NotJoined) {
        let fault = Text::from(format!("could not open its streams: {why}"));
        self.on_streams_over(id, &[], Some(fault));
    }

    /// All has gone through on one node, or something is wrong there.
    fn on_node_over(
        &mut self,
        id: OpeningId,
        node: NodeId,
        accounts: Vec<StreamAccount>,
        fault: Option<Text>,
    ) {
        if self.on_end_within_change(id, node) {
            return;
        }
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        if let Some(told) = opening.nodes.get_mut(&node) {
            *told = Some(accounts);
        }
        opening.stalls.on_node_over(node);
        let is_last = opening.nodes.values().all(Option::is_some);
        if opening.is_over || !(is_last || fault.is_some()) {
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
                    Err(why) => wrong = Some(Text::from(why)),
                }
            }
        }
        // What lacks on other nodes is no fault of its own.
        let fault = fault.or(wrong.filter(|_| is_last));
        self.on_streams_over(id, &all, fault);
    }

    pub(super) fn on_streams_over(
        &mut self,
        id: OpeningId,
        accounts: &[StreamAccount],
        fault: Option<Text>,
    ) {
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        if opening.is_over {
            return;
        }
        opening.is_over = true;
        let failed_before = opening.failed;
        opening.failed |= fault.is_some();
        opening.fault.clone_from(&fault);
        let held = opening.held.take();
        let left: Vec<TaskId> = opening.left.iter().copied().collect();
        let place = opening.component;
        self.note_streams_ended(id, accounts, fault.as_ref());
        self.tell_additions(place, accounts);
        // After the failure of a member, what follows from it is not said.
        if let Some(fault) = fault.as_ref().filter(|_| !failed_before) {
            let text = self.with_names(fault);
            self.warn(&text);
            // Their commands end, and so their actions do not end well.
            let running =
                |task: &TaskId| self.commands.values().any(|command| command.task == Some(*task));
            let ended: BTreeSet<TaskId> = left.iter().copied().filter(running).collect();
            if let Some(opening) = self.streams.open.get_mut(&id) {
                opening.ended = ended;
            }
            for task in left {
                self.signal_commands_of(task);
            }
        }
        let Some(HeldEnd { task, message, code }) = held else { return };
        self.close_streams(id);
        let (outcome, message) = match fault {
            None => (ActionOutcome::Ok, message),
            Some(fault) => (ActionOutcome::Failed, self.with_names(&fault).into_bytes()),
        };
        self.on_action_ended(task, outcome, &message, code);
    }

    /// A last line without newline got one: that is said, once for each stream.
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

    /// A fault as the front is told of it in place of a command's end.
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

    fn note_streams_ended(
        &mut self,
        id: OpeningId,
        accounts: &[StreamAccount],
        fault: Option<&Text>,
    ) {
        let event = JournalEvent::StreamsEnded(StreamsEnded {
            time_ns: self.now.journal_ns(),
            opening: id.0,
            streams: accounts.to_vec(),
            fault: fault.cloned(),
        });
        self.record.gang_started(self.run.scheduler(), &self.names, &event, &[]);
    }
}

/// What went through a stream on all nodes. An error of Rakuda is the error here: an edge that does
/// not give out what went into it, or a reader that did not get what was written.
fn merged(opening: &Opening, number: usize, name: &Text) -> Result<StreamAccount, String> {
    let own: Vec<&StreamAccount> = opening.told().filter(|account| account.name == *name).collect();
    let tasks = |ends: fn(&StreamAccount) -> &[EndAccount]| -> Vec<EndAccount> {
        sum_of_tasks(own.iter().flat_map(|account| ends(account)))
    };
    let writers = tasks(|account| &account.writers);
    let readers = tasks(|account| &account.readers);
    let mut hops = Vec::new();
    for (edge, index) in opening.edges.all.iter().zip(0..).filter(|(edge, _)| edge.stream == number)
    {
        let end = StreamEnd::Hop(index);
        let sent = own.iter().flat_map(|account| &account.readers).find(|one| one.end == end);
        let got = own.iter().flat_map(|account| &account.writers).find(|one| one.end == end);
        let (Some(sent), Some(got)) = (sent, got) else {
            return Err(format!("stream {}: an edge has no account", name.to_display()));
        };
        // Whoever left has taken less, and so has a node where everybody has left: it drops what still comes.
        let place = own.iter().find(|account| account.writers.iter().any(|one| one.end == end));
        let abandoned = place.is_some_and(|place| place.readers.iter().all(|one| one.is_special));
        let left = sent.is_special || abandoned;
        if !left && (sent.bytes, sent.records) != (got.bytes, got.records) {
            return Err(format!(
                "stream {}: {} bytes and {} records went into an edge, {} and {} came out; \
                 this is an error of rakuda",
                name.to_display(),
                sent.bytes,
                sent.records,
                got.bytes,
                got.records
            ));
        }
        hops.push(HopAccount {
            from: edge.from.0,
            to: edge.to.0,
            line: edge.line,
            way: edge.way,
            bytes: sent.bytes,
            records: sent.records,
            left,
        });
    }
    let written = writers.iter().map(|end| end.bytes + u64::from(end.is_special)).sum::<u64>();
    let records = writers.iter().map(|end| end.records).sum::<u64>();
    let whole = readers.iter().filter(|end| !end.is_special);
    for reader in whole {
        if (reader.bytes, reader.records) != (written, records) {
            let StreamEnd::Task(task) = reader.end else { continue };
            return Err(format!(
                "stream {}: task {task} got {} bytes and {} records of {written} and {records}; \
                 this is an error of rakuda",
                name.to_display(),
                reader.bytes,
                reader.records
            ));
        }
    }
    let memory_bytes_max = own.iter().map(|account| account.memory_bytes_max).sum();
    let spilled_bytes = own.iter().map(|account| account.spilled_bytes).sum();
    let spilled_bytes_max = own.iter().map(|account| account.spilled_bytes_max).sum();
    Ok(StreamAccount {
        name: name.clone(),
        writers,
        readers,
        memory_bytes_max,
        spilled_bytes,
        spilled_bytes_max,
        hops,
    })
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

//! Numbers that name things in a simulation, each a type of its own.

macro_rules! id {
    ($(#[$doc:meta])* $visible:vis $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visible struct $name(pub u32);

        impl $name {
            /// The position in its vector.
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The number of a position.
            ///
            /// # Panics
            /// Beyond 2^32.
            #[allow(dead_code, reason = "not every kind is counted up")]
            pub fn at(index: usize) -> Self {
                Self(u32::try_from(index).expect("fewer than 2^32 of a kind"))
            }
        }
    };
}

id!(
    /// A file of a workload.
    pub FileId
);
id!(
    /// What tasks have in common: the program that they run.
    pub RuleId
);
id!(
    /// Something with a bandwidth that transfers share.
    pub(crate) ChannelId
);
id!(
    /// A transfer. The number is used again when it has ended.
    pub(crate) FlowId
);
id!(
    /// A node, or the file server.
    pub(crate) MachineId
);

//! The page cache of one machine: least recently used, by bytes, whole files.
//!
//! Knows no disk and no dirty pages. How much memory is left for it, others say.

use std::collections::BTreeMap;

use crate::ids::FileId;

#[derive(Clone, Debug, Default)]
pub(crate) struct PageCache {
    capacity: u64,
    used: u64,
    /// Bytes of each file, and when it was used last.
    files: BTreeMap<FileId, (u64, u64)>,
    /// Files by when they were used last.
    order: BTreeMap<u64, FileId>,
    uses: u64,
}

impl PageCache {
    pub(crate) fn new(capacity: u64) -> Self {
        Self { capacity, ..Self::default() }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(crate) fn has(&self, file: FileId) -> bool {
        self.files.contains_key(&file)
    }

    /// Sets how much memory is left for files.
    pub(crate) fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.shrink();
    }

    /// A file was read or written.
    pub(crate) fn touch(&mut self, file: FileId, bytes: u64) {
        self.forget(file);
        self.uses += 1;
        self.files.insert(file, (bytes, self.uses));
        self.order.insert(self.uses, file);
        self.used += bytes;
        self.shrink();
    }

    /// A file is gone.
    pub(crate) fn forget(&mut self, file: FileId) {
        if let Some((bytes, used_at)) = self.files.remove(&file) {
            self.order.remove(&used_at);
            self.used -= bytes;
        }
    }

    fn shrink(&mut self) {
        while self.used > self.capacity {
            let (_, oldest) = self.order.pop_first().expect("used bytes belong to a file");
            let (bytes, _) = self.files.remove(&oldest).expect("the order knows no other files");
            self.used -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(cache: &PageCache) -> Vec<u32> {
        (0..10).filter(|file| cache.has(FileId(*file))).collect()
    }

    #[test]
    fn the_file_that_was_used_longest_ago_leaves_first() {
        let mut cache = PageCache::new(10);
        for file in 0..3 {
            cache.touch(FileId(file), 3);
        }
        cache.touch(FileId(0), 3);
        cache.touch(FileId(3), 4);
        assert_eq!(held(&cache), [0, 2, 3]);
        cache.set_capacity(7);
        assert_eq!(held(&cache), [0, 3]);
        cache.forget(FileId(0));
        assert_eq!(held(&cache), [3]);
    }

    #[test]
    fn a_file_larger_than_memory_leaves_nothing_behind() {
        let mut cache = PageCache::new(10);
        cache.touch(FileId(0), 3);
        cache.touch(FileId(1), 11);
        assert!(held(&cache).is_empty());
    }
}

//! Published data that several servers share: copies of one server's data at another.
use super::{ItemNumber, Publication, Published, user_publications::PublishedItem};
use crate::group::ServerId;
use peal_model::{Key, Proc};
use std::collections::BTreeSet;

impl Published {
    /// Returns the data of this server's procs that other servers may see.
    pub fn shared(&self) -> Vec<Publication> {
        let shelves = self.shelves.iter();
        shelves
            .flat_map(|(uid, shelf)| shelf.shared(*uid))
            .collect()
    }

    /// Withdraws items that another server has published.
    pub fn withdraw_of(&mut self, server: ServerId, items: &BTreeSet<ItemNumber>) {
        self.each(|shelf| {
            let is_meant =
                |item: &PublishedItem| item.server == Some(server) && items.contains(&item.number);
            shelf.withdraw(|_, item| is_meant(item));
        });
    }

    /// Removes what another server has published, and its lookups.
    pub fn remove_server(&mut self, server: ServerId) {
        self.each(|shelf| {
            shelf.withdraw(|_, item| item.server == Some(server));
            shelf.give_up(|_, seeker| seeker.server == Some(server));
        });
    }

    /// Removes what other servers have published, and their lookups.
    pub fn remove_others(&mut self) {
        self.each(|shelf| {
            shelf.withdraw(|_, item| item.server.is_some());
            shelf.give_up(|_, seeker| seeker.server.is_some());
        });
    }

    /// Removes items of this server that the holder does not have. Returns their publishers and keys.
    pub fn remove_shared(&mut self, items: &BTreeSet<ItemNumber>) -> Vec<(Proc, Key)> {
        let mut removed = Vec::new();
        self.each(|shelf| {
            let is_meant = |item: &PublishedItem| {
                item.is_here() && item.scope.is_shared() && items.contains(&item.number)
            };
            removed.extend(shelf.names(is_meant));
            shelf.withdraw(|_, item| is_meant(item));
        });
        removed
    }
}

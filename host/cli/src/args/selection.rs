//! Options that filter and sort lists, alike for all of them.
use crate::{
    listing::{ListItem, ListOrder},
    users,
};
use clap::{Args as ClapArgs, builder::PossibleValuesParser};
use std::marker::PhantomData;

/// Option that selects the items of a user.
#[derive(ClapArgs, Clone, Copy, Debug, Default)]
pub struct UserArgs {
    /// List only what belongs to USER, by name or number
    #[arg(long, value_name = "USER", value_parser = users::find)]
    pub user: Option<u32>,
}

/// Option that selects the items in some states.
#[derive(ClapArgs, Clone, Debug)]
pub struct StateArgs<T: ListItem> {
    /// List only what is in STATE. Repeat for more states
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(T::STATES.iter().copied()))]
    pub state: Vec<String>,
    #[arg(skip)]
    item: PhantomData<T>,
}

/// Option that sorts items.
#[derive(ClapArgs, Clone, Debug)]
pub struct SortArgs<T: ListItem> {
    /// Sort by COLUMN, named as in the head of the table, with - for a space; -COLUMN for the reverse
    /// order
    #[arg(long, value_name = "COLUMN", value_parser = ListOrder::parse::<T>, allow_hyphen_values = true)]
    pub sort: Option<ListOrder>,
    #[arg(skip)]
    item: PhantomData<T>,
}

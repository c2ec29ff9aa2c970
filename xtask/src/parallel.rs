//! Work on several items at a time, with the results as they come.
use std::{
    collections::VecDeque,
    num::NonZero,
    sync::{Mutex, PoisonError, mpsc},
    thread,
};

/// Returns the number of cores of this machine.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Calls `work` for each item on this number of threads, and `each` for each result, on the thread of the
/// caller.
pub fn for_each<Item: Send, Done: Send>(
    threads: usize,
    items: impl IntoIterator<Item = Item>,
    work: impl Fn(Item) -> Done + Sync,
    each: impl FnMut(Done),
) {
    let queue = Mutex::new(items.into_iter().collect::<VecDeque<Item>>());
    let next = || {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    };
    let (next, work) = (&next, &work);
    thread::scope(|scope| {
        let (tell, done) = mpsc::channel();
        for _ in 0..threads {
            let tell = tell.clone();
            scope.spawn(move || {
                while let Some(item) = next() {
                    if tell.send(work(item)).is_err() {
                        break;
                    }
                }
            });
        }
        // The results end with the last sender.
        drop(tell);
        done.into_iter().for_each(each);
    });
}

#[cfg(test)]
mod tests {
    use super::for_each;

    #[test]
    fn each_item_is_worked_on_once() {
        let mut results = Vec::new();
        for_each(3, 0..100, |item| item * 2, |result| results.push(result));
        results.sort_unstable();
        assert_eq!(results, (0..100).map(|item| item * 2).collect::<Vec<_>>());
    }
}

//! Environment of a proc, and the message by which its process says which proc it becomes.
//!
//! Slurm calls `PMIx_server_setup_fork` in the forked child, as the user of the job: no thread of
//! this library lives there, and any lock may be held. What the function needs is therefore in a
//! block that is made at the init, never changes and is never freed. It uses the C heap alone, which
//! the C library makes usable in a forked child.
use super::model_variables::{self, Reader};
use crate::{
    abi::{CProc, CStatus},
    border,
    convert::ConvertError,
    memory,
};
use peal_model::{Rank, Status, code};
use peal_stub::{EnvironmentVariable, fork as message};
use std::{
    ffi::{CStr, CString, c_char},
    mem,
    os::fd::RawFd,
    ptr, slice,
    sync::atomic::{AtomicPtr, Ordering},
};

/// Block of the latest init; null before it and after the finalization.
static BLOCK: AtomicPtr<ForkBlock> = AtomicPtr::new(ptr::null_mut());

/// Data that the children of this process need.
#[derive(Debug)]
pub(super) struct ForkBlock {
    /// The process that has initialized the library.
    process: libc::pid_t,
    variables: Vec<Assignment>,
    /// Socket to the server. It is closed when a child starts its program.
    socket: RawFd,
}

/// Variable in the form of an environment.
#[derive(Debug)]
pub(super) struct Assignment {
    text: CString,
    /// Length of the name with its equals sign.
    name: usize,
}

impl Assignment {
    /// Returns the form of a variable; `None` if it cannot be one.
    pub(super) fn new(variable: &EnvironmentVariable) -> Option<Assignment> {
        let EnvironmentVariable { name, value } = variable;
        if name.is_empty() || name.contains('=') {
            return None;
        }
        Some(Assignment {
            text: CString::new(format!("{name}={value}")).ok()?,
            name: name.len().saturating_add(1),
        })
    }
}

impl ForkBlock {
    /// Prepares the block of this process.
    pub(super) fn publish(variables: &[EnvironmentVariable], socket: RawFd) {
        let assignments = variables.iter().filter_map(|variable| {
            let assignment = Assignment::new(variable);
            if assignment.is_none() {
                tracing::warn!(name = variable.name, "variable of the server left out");
            }
            assignment
        });
        let block = ForkBlock {
            // SAFETY: the function has no conditions.
            process: unsafe { libc::getpid() },
            variables: assignments.collect(),
            socket,
        };
        // Never freed: a thread of the host may read it at any time.
        BLOCK.store(Box::into_raw(Box::new(block)), Ordering::Release);
    }

    /// Ends the use of the block.
    pub(super) fn withdraw() {
        BLOCK.store(ptr::null_mut(), Ordering::Release);
    }
}

/// `PMIx_server_setup_fork`: adds to an environment what a proc needs to find its server. It may be
/// called in a forked child. There it also tells the server which proc the process becomes; the kernel
/// attests the process.
///
/// # Safety
///
/// `proc` is null or points to a proc; `env` is null, or points to null or to a list of strings that
/// ends with a null pointer. The list and its strings are from `malloc`, or the list is `environ`.
#[unsafe(export_name = "PMIx_server_setup_fork")]
pub unsafe extern "C" fn server_setup_fork(
    proc: *const CProc,
    env: *mut *mut *mut c_char,
) -> CStatus {
    border::status("PMIx_server_setup_fork", || {
        // SAFETY: the block is never freed.
        let block = unsafe { BLOCK.load(Ordering::Acquire).as_ref() }.ok_or(code::PMIX_ERR_INIT)?;
        // SAFETY: the caller guarantees what the references demand, or null.
        let (Some(proc), Some(env)) = (unsafe { (proc.as_ref(), env.as_mut()) }) else {
            return Err(code::PMIX_ERR_BAD_PARAM);
        };
        let nspace = name_of(proc);
        // SAFETY: the function has no conditions.
        let is_child = unsafe { libc::getpid() } != block.process;
        let reader = if is_child {
            Reader::Child
        } else {
            Reader::Thread
        };
        let rank = Rank(proc.rank);
        model_variables::with_variables(nspace, rank, reader, |common, own| {
            // SAFETY: the caller guarantees a list.
            unsafe { fill(env, [&block.variables, common, own], nspace, rank) }
        })?;
        if is_child {
            tell(block, nspace, rank);
        }
        Ok(())
    })
}

/// Returns the namespace of a proc, without its NUL.
fn name_of(proc: &CProc) -> &[u8] {
    // SAFETY: signed and unsigned characters have the same layout.
    let bytes: &[u8] =
        unsafe { slice::from_raw_parts(proc.nspace.as_ptr().cast(), proc.nspace.len()) };
    let end = bytes.iter().position(|byte| *byte == 0);
    let end = end.unwrap_or(bytes.len().saturating_sub(1));
    bytes.get(..end).unwrap_or_default()
}

/// Text of a variable, on the stack.
struct ShortText {
    bytes: [u8; 512],
    len: usize,
}

impl ShortText {
    /// Joins parts; what has no room is left out.
    fn of(parts: [&[u8]; 2]) -> ShortText {
        let mut text = ShortText {
            bytes: [0; 512],
            len: 0,
        };
        for byte in parts.into_iter().flatten() {
            if let Some(place) = text.bytes.get_mut(text.len) {
                *place = *byte;
                text.len += 1;
            }
        }
        text
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Digits of a number, on the stack.
struct Digits {
    bytes: [u8; 10],
    first: usize,
}

impl Digits {
    fn of(mut number: u32) -> Digits {
        let mut digits = Digits {
            bytes: [b'0'; 10],
            first: 10,
        };
        for (at, place) in digits.bytes.iter_mut().enumerate().rev() {
            *place = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
            digits.first = at;
            if number == 0 {
                break;
            }
        }
        digits
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(self.first..).unwrap_or_default()
    }
}

/// Environment of a proc, to which variables are added.
struct ProcEnvironment<'a> {
    list: &'a mut *mut *mut c_char,
    len: usize,
}

/// Sets the variables of a proc in an environment.
///
/// # Safety
///
/// `list` is null, or a list of strings that ends with a null pointer. It and its strings are from
/// `malloc`, or it is `environ`.
unsafe fn fill(
    list: &mut *mut *mut c_char,
    others: [&[Assignment]; 3],
    nspace: &[u8],
    rank: Rank,
) -> Result<(), Status> {
    let nspace = ShortText::of([b"PMIX_NAMESPACE=", nspace]);
    let rank = ShortText::of([b"PMIX_RANK=", Digits::of(rank.0).as_bytes()]);
    let named = [(nspace.as_bytes(), 15), (rank.as_bytes(), 10)];
    let count = others.iter().map(|others| others.len()).sum::<usize>();
    let others = others.into_iter().flatten();
    let others = others.map(|variable| (variable.text.as_bytes(), variable.name));
    let variables = named.into_iter().chain(others);
    // SAFETY: the pointer is read only.
    if !list.is_null() && *list == unsafe { environ } {
        for (text, name) in variables {
            set_own(text, name)?;
        }
        return Ok(());
    }
    // SAFETY: the caller guarantees a list.
    let mut environment = unsafe { ProcEnvironment::with_room(list, count.saturating_add(2)) }?;
    for (text, name) in variables {
        // SAFETY: the list has room for all variables, and its strings are from `malloc`.
        unsafe { environment.set(text, name) }?;
    }
    Ok(())
}

unsafe extern "C" {
    /// The environment of the process.
    static mut environ: *mut *mut c_char;
}

/// Sets a variable of this process.
fn set_own(text: &[u8], name: usize) -> Result<(), ConvertError> {
    let copy = memory::copy_string(text)?;
    // SAFETY: the copy has an equals sign before `name`, which the NUL replaces: the name and the value
    // are then two strings.
    unsafe {
        copy.add(name.saturating_sub(1)).write(0);
        libc::setenv(copy, copy.add(name), 1);
        memory::free(copy);
    }
    Ok(())
}

impl<'a> ProcEnvironment<'a> {
    /// Moves a list to one with room for more variables.
    ///
    /// # Safety
    ///
    /// `list` is null, or a list from `malloc` that ends with a null pointer.
    unsafe fn with_room(
        list: &'a mut *mut *mut c_char,
        more: usize,
    ) -> Result<ProcEnvironment<'a>, ConvertError> {
        let mut len = 0_usize;
        // SAFETY: the caller guarantees a null pointer at the end, where this loop stops.
        while !list.is_null() && !unsafe { *list.add(len) }.is_null() {
            len += 1;
        }
        let places = len.saturating_add(more).saturating_add(1);
        let longer: *mut *mut c_char = memory::allocate(places)?;
        // SAFETY: the old list has `len` strings, the new one more places. The old one is from
        // `malloc`, and nothing uses it any more.
        unsafe {
            if len > 0 {
                longer.copy_from_nonoverlapping(*list, len);
            }
            memory::free(mem::replace(list, longer));
        }
        Ok(ProcEnvironment { list, len })
    }

    /// Sets a variable. `name` is the length of its name with the equals sign.
    ///
    /// # Safety
    ///
    /// The list has room for one string more, and its strings are from `malloc`.
    unsafe fn set(&mut self, text: &[u8], name: usize) -> Result<(), ConvertError> {
        let copy = memory::copy_string(text)?;
        let prefix = text.get(..name).unwrap_or(text);
        for at in 0..self.len {
            // SAFETY: the list has `len` strings from `malloc`.
            unsafe {
                let place = self.list.add(at);
                if CStr::from_ptr(*place).to_bytes().starts_with(prefix) {
                    memory::free(mem::replace(&mut *place, copy));
                    return Ok(());
                }
            }
        }
        // SAFETY: the caller guarantees a place; zeros behind it end the list.
        unsafe { self.list.add(self.len).write(copy) };
        self.len += 1;
        Ok(())
    }
}

/// Tells the server which proc this process becomes. A failure stays without consequence here: the
/// server then learns of the process when it connects.
fn tell(block: &ForkBlock, nspace: &[u8], rank: Rank) {
    /// Room for a control message, aligned as its header.
    #[repr(align(8))]
    struct Control([u8; 64]);
    let mut place = [0; message::MAX_LENGTH];
    let Some(len) = message::write(nspace, rank, &mut place) else {
        return;
    };
    let mut control = Control([0; 64]);
    let mut part = libc::iovec {
        iov_base: place.as_mut_ptr().cast(),
        iov_len: len,
    };
    let room = mem::size_of::<libc::ucred>() as u32;
    // SAFETY: the message is zeros but for pointers to places that live until the call returns. The
    // control message has a header and credentials, for which there is room. The calls are those that
    // a signal handler may make.
    unsafe {
        let credentials = libc::ucred {
            pid: libc::getpid(),
            uid: libc::geteuid(),
            gid: libc::getegid(),
        };
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(room) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_CREDENTIALS;
        (*header).cmsg_len = libc::CMSG_LEN(room) as _;
        libc::CMSG_DATA(header)
            .cast::<libc::ucred>()
            .write_unaligned(credentials);
        libc::sendmsg(block.socket, &message, libc::MSG_NOSIGNAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{destruct::free_argv, memory::counter};

    fn strings(list: *mut *mut c_char) -> Vec<String> {
        (0..)
            // SAFETY: a null pointer ends the list.
            .map(|at| unsafe { *list.add(at) })
            .take_while(|text| !text.is_null())
            // SAFETY: the list has strings before it.
            .map(|text| unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn variables_replace_those_of_the_same_name_and_others_stay() {
        let before = counter::live();
        let variable = |name: &str, value: &str| EnvironmentVariable {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let variables = [
            variable("PMIX_A", "new"),
            variable("B", "b=c"),
            variable("", "x"),
        ];
        let block = ForkBlock {
            process: 0,
            variables: variables.iter().filter_map(Assignment::new).collect(),
            socket: -1,
        };
        let list: *mut *mut c_char = memory::allocate(4).unwrap();
        for (at, text) in ["PMIX_RANK=9", "PMIX_AB=kept", "PMIX_A=old"]
            .iter()
            .enumerate()
        {
            // SAFETY: the list has four places.
            unsafe { *list.add(at) = memory::copy_string(text.as_bytes()).unwrap() };
        }
        let mut env = list;
        let others: [&[Assignment]; 3] = [&block.variables, &[], &[]];
        // SAFETY: the list is from `malloc` and ends with a null pointer.
        unsafe { fill(&mut env, others, b"slurm.pmix.1.0", Rank(u32::MAX)) }.unwrap();
        let expected = [
            "PMIX_RANK=4294967295",
            "PMIX_AB=kept",
            "PMIX_A=new",
            "PMIX_NAMESPACE=slurm.pmix.1.0",
            "B=b=c",
        ];
        assert_eq!(strings(env), expected);
        let mut none = ptr::null_mut();
        // SAFETY: null is an empty list; both lists are freed once.
        unsafe {
            fill(&mut none, others, b"job", Rank(0)).unwrap();
            assert_eq!(
                strings(none),
                ["PMIX_NAMESPACE=job", "PMIX_RANK=0", "PMIX_A=new", "B=b=c"]
            );
            free_argv(env);
            free_argv(none);
        }
        assert_eq!(counter::live(), before);
    }
}

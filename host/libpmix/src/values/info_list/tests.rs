//! Tests of lists of infos.
use super::*;
use crate::{memory::counter, values::keys::bounded};

/// Returns the keys and strings of a list.
unsafe fn contents(list: *mut c_void) -> String {
    let (mut at, mut parts) = (ptr::null_mut(), Vec::new());
    // SAFETY: the caller has a list whose values are strings.
    unsafe {
        for _ in 0..info_list_get_size(list) {
            let info = info_list_get_info(list, at, &mut at);
            let key = String::from_utf8_lossy(bounded((*info).key.as_ptr(), 511)).into_owned();
            let text = bounded((*info).value.data.string, 100);
            parts.push(format!("{key}={}", String::from_utf8_lossy(text)));
        }
    }
    assert!(at.is_null());
    parts.join(" ")
}

#[test]
fn infos_are_added_in_order_and_unique_ones_once() {
    let before = counter::live();
    let string = dt::PMIX_STRING.0;
    let list = info_list_start();
    // SAFETY: the list is new; keys and data are strings.
    unsafe {
        let text = |text: &'static std::ffi::CStr| text.as_ptr().cast();
        assert_eq!(info_list_add(list, c"b".as_ptr(), text(c"2"), string), 0);
        assert_eq!(
            info_list_prepend(list, c"a".as_ptr(), text(c"1"), string),
            0
        );
        assert_eq!(
            info_list_add_unique(list, c"a".as_ptr(), text(c"9"), string, 0),
            0
        );
        assert_eq!(contents(list), "a=1 b=2");
        assert_eq!(
            info_list_add_unique(list, c"a".as_ptr(), text(c"3"), string, 1),
            0
        );
        let first = info_list_get_info(list, ptr::null_mut(), ptr::null_mut());
        let value = (*first).value;
        assert_eq!(info_list_add_value(list, c"c".as_ptr(), &value), 0);
        assert_eq!(
            info_list_add_value_unique(list, c"b".as_ptr(), &value, 1),
            0
        );
        assert_eq!(info_list_xfer(list, first), 0);
        assert_eq!(info_list_xfer_unique(list, first, 1), 0);
        assert_eq!(contents(list), "a=3 b=3 c=3 a=3");
        let mut array = CDataArray::zeroed();
        assert_eq!(info_list_convert(list, &mut array), 0);
        assert_eq!((array.size, array.r#type), (4, dt::PMIX_INFO.0));
        array.destruct();
        info_list_release(list);
    }
    assert_eq!(counter::live(), before);
}

#[test]
fn inserted_info_stays_the_callers() {
    let before = counter::live();
    let mut info = CInfo::zeroed();
    let list = info_list_start();
    // SAFETY: the info outlives the list and the array.
    unsafe {
        let text = c"text".as_ptr().cast();
        info::info_load(&mut info, c"k".as_ptr(), text, dt::PMIX_STRING.0);
        assert_eq!(info_list_insert(list, &info), 0);
        let mut array = CDataArray::zeroed();
        assert_eq!(info_list_convert(list, &mut array), 0);
        assert_eq!(
            (*array.array.cast::<CInfo>()).value.data.string,
            info.value.data.string
        );
        array.destruct();
        info_list_release(list);
        info.destruct();
    }
    assert_eq!(counter::live(), before);
}

#[test]
fn null_and_empty_lists_have_their_statuses() {
    let bad = code::PMIX_ERR_BAD_PARAM.0;
    let mut array = CDataArray::zeroed();
    let list = info_list_start();
    // SAFETY: null is allowed.
    unsafe {
        assert_eq!(
            info_list_add(ptr::null_mut(), c"k".as_ptr(), ptr::null(), 1),
            bad
        );
        assert_eq!(info_list_add(list, ptr::null(), ptr::null(), 1), bad);
        assert_eq!(info_list_insert(list, ptr::null()), bad);
        assert_eq!(info_list_xfer(list, ptr::null()), bad);
        assert_eq!(info_list_add_value(list, c"k".as_ptr(), ptr::null()), bad);
        assert_eq!(info_list_convert(list, ptr::null_mut()), bad);
        assert_eq!(info_list_convert(list, &mut array), code::PMIX_ERR_EMPTY.0);
        let info = info_list_get_info(list, ptr::null_mut(), ptr::null_mut());
        assert!(info.is_null());
        assert_eq!(info_list_get_size(ptr::null_mut()), 0);
        info_list_release(ptr::null_mut());
        info_list_release(list);
    }
}

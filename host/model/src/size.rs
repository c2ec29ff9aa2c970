//! Memory and nesting of values, which are bounded for values from outside.
use crate::{Event, Info, Kval, Text, Value};

/// Size of a value, an info or an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Approximate bytes in memory.
    pub bytes: usize,
    /// Levels of nested values; 1 is a plain value.
    pub depth: usize,
}

impl Size {
    fn leaf(heap: usize) -> Size {
        Size {
            bytes: size_of::<Value>().saturating_add(heap),
            depth: 1,
        }
    }

    /// Returns the size of a value with `heap` bytes of its own and inner values.
    fn around(heap: usize, inner: impl IntoIterator<Item = Size>) -> Size {
        inner
            .into_iter()
            // A text counts each time it occurs, also where its bytes are shared. The sum is an
            // upper bound, and saturates where it would wrap.
            .fold(Size::leaf(heap), |outer, inner| Size {
                bytes: outer.bytes.saturating_add(inner.bytes),
                depth: outer.depth.max(inner.depth.saturating_add(1)),
            })
    }

    /// Returns the size of an event.
    pub fn of_event(event: &Event) -> Size {
        Size::around(size_of::<Event>(), event.infos.iter().map(Size::of_info))
    }

    /// Returns the size of a pair.
    pub fn of_kval(kval: &Kval) -> Size {
        Size::around(kval.key.as_bytes().len(), [Size::of(&kval.value)])
    }

    /// Returns the size of an info.
    pub fn of_info(info: &Info) -> Size {
        let value = Size::of(&info.value);
        Size {
            bytes: value
                .bytes
                // The key is counted here, since a value does not know its key.
                .saturating_add(size_of::<Info>() + info.key.as_bytes().len()),
            depth: value.depth,
        }
    }

    /// Returns the size of a value.
    pub fn of(value: &Value) -> Size {
        match value {
            Value::String(Some(text)) | Value::Cpuset(Some(text)) => {
                Size::leaf(text.as_bytes().len())
            }
            Value::ByteObject(bytes)
            | Value::CompressedString(bytes)
            | Value::CompressedByteObject(bytes)
            | Value::DataBuffer(bytes) => Size::leaf(bytes.as_slice().len()),
            Value::Nspace(nspace) => Size::leaf(nspace.as_str().len()),
            Value::Proc(proc) => Size::leaf(proc.nspace.as_str().len()),
            Value::DataArray(array) => Size::around(0, array.items().iter().map(Size::of)),
            Value::Value(value) => Size::around(0, [Size::of(value)]),
            Value::Info(info) => Size::around(0, [Size::of_info(info)]),
            Value::Kval(kval) => Size::of_kval(kval),
            Value::Pdata(data) => Size::around(data.key.as_bytes().len(), [Size::of(&data.value)]),
            Value::App(app) => Size::around(
                texts(&app.args) + texts(&app.env) + texts([&app.command, &app.cwd]),
                app.infos.iter().map(Size::of_info),
            ),
            Value::Query(query) => Size::around(
                texts(&query.keys),
                query.qualifiers.iter().map(Size::of_info),
            ),
            Value::ProcInfo(info) => Size::leaf(texts([&info.hostname, &info.executable])),
            Value::Envar(envar) => Size::leaf(texts([&envar.name, &envar.value])),
            Value::Coord(coord) => Size::leaf(size_of_val(coord.coordinates.as_slice())),
            Value::Regattr(attr) => {
                Size::leaf(texts([&attr.name, &attr.key]) + texts(&attr.description))
            }
            Value::Geometry(geometry) => Size::leaf(
                texts([&geometry.uuid, &geometry.osname])
                    + geometry
                        .coordinates
                        .iter()
                        .map(|coord| size_of_val(coord.coordinates.as_slice()))
                        .sum::<usize>(),
            ),
            Value::DeviceDistance(distance) => {
                Size::leaf(texts([&distance.uuid, &distance.osname]))
            }
            Value::Endpoint(end) => {
                Size::leaf(texts([&end.uuid, &end.osname]) + end.address.as_slice().len())
            }
            Value::Topology(topology) => Size::leaf(
                topology
                    .xml
                    .as_ref()
                    .map_or(0, |(xml, raw)| xml.as_bytes().len() + raw.as_slice().len()),
            ),
            Value::DiskStats(disk) => Size::leaf(texts([&disk.disk]) + size_of_val(&disk.counters)),
            Value::NetStats(net) => {
                Size::leaf(texts([&net.interface]) + size_of_val(&net.counters))
            }
            Value::NodeStats(node) => Size::leaf(
                texts([&node.node]) + size_of_val(&node.load) + size_of_val(&node.memory),
            ),
            Value::Device(device) => Size::leaf(texts([&device.uuid, &device.osname])),
            Value::NodePid(node) => Size::leaf(texts([&node.hostname])),
            // All other values own no memory on the heap, or a box of fixed size.
            _ => Size::leaf(0),
        }
    }
}

fn texts<'a>(texts: impl IntoIterator<Item = &'a Option<Text>>) -> usize {
    let size = |text: &Option<Text>| {
        size_of::<Text>() + text.as_ref().map_or(0, |text| text.as_bytes().len())
    };
    texts.into_iter().map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataArray, key};

    #[test]
    fn nested_arrays_count_with_all_they_hold() {
        let text = Value::string(&"x".repeat(1000));
        let inner = Value::DataArray(DataArray::infos([Info::new(
            key::PMIX_EVENT_TEXT_MESSAGE,
            text,
        )]));
        let outer = Value::DataArray(
            DataArray::new(inner.data_type(), vec![inner.clone(), inner.clone()]).unwrap(),
        );
        assert_eq!(Size::of(&Value::Bool(true)).depth, 1);
        assert_eq!(Size::of(&inner).depth, 3);
        assert_eq!(Size::of(&outer).depth, 4);
        assert!(Size::of(&inner).bytes > 1000);
        assert!(Size::of(&outer).bytes > 2 * Size::of(&inner).bytes);
    }
}

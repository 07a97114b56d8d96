//! Decides which addresses a request may reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of IP addresses, such as `10.1.0.0/16` or `::1`.
///
/// ```
/// use workflow_tools::http::Network;
///
/// let network: Network = "10.1.0.0/16".parse().unwrap();
/// assert!(network.contains("10.1.200.3".parse().unwrap()));
/// assert!("10.1.0.0/33".parse::<Network>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

/// A text is not a [`Network`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a network: write an address, or an address and the length of its prefix, as in 10.1.0.0/16")]
pub struct InvalidNetwork(String);

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let wrong = || InvalidNetwork(text.to_owned());
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(bits), str::parse).map_err(|_| wrong())?;
        if prefix > bits { Err(wrong()) } else { Ok(Self { address, prefix }) }
    }
}

impl Network {
    /// Returns whether the address lies in this range. An IPv4 address in the form of IPv6 counts
    /// as the IPv4 address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - self.prefix).unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - self.prefix).unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            _ => false,
        }
    }
}

/// The addresses that requests may reach: the public internet, and networks that the operator adds.
#[derive(Debug, Clone, Default)]
pub(super) struct Reach {
    pub(super) networks: Vec<Network>,
}

impl Reach {
    pub(super) fn allows(&self, address: IpAddr) -> bool {
        is_public(address) || self.networks.iter().any(|network| network.contains(address))
    }
}

/// Whether the address belongs to the public internet. Addresses that carry an IPv4 address are
/// judged by it, because gateways and kernels unpack them.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = match a {
        0 | 10 | 127 => true,
        100 => b & 0b1100_0000 == 64,
        169 => b == 254,
        172 => b & 0b1111_0000 == 16,
        192 => matches!((b, c), (168, _) | (0, 0 | 2) | (88, 99)),
        198 => matches!((b, c), (18 | 19, _) | (51, 100)),
        203 => (b, c) == (0, 113),
        _ => a >= 224,
    };
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let embedded = |high: u16, low: u16| is_public_v4(Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)));
    match (a, b, c, d, e, f) {
        // Mapped, compatible and translated IPv4 addresses; `::` and `::1` are among them.
        (0, 0, 0, 0, 0, 0 | 0xffff) | (0, 0, 0, 0, 0xffff, 0) | (0x64, 0xff9b, 0, 0, 0, 0) => embedded(g, h),
        // 6to4.
        (0x2002, ..) => embedded(b, c),
        // Teredo, benchmarks, ORCHID, documentation.
        (0x2001, 0..=0x1ff | 0xdb8, ..) => false,
        (0x3fff, 0..=0xfff, ..) => false,
        // Global unicast, which is 2000::/3. All other addresses are local or reserved.
        _ => a & 0b1110_0000_0000_0000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_not_public_in_any_form() {
        for address in [
            "127.0.0.1",
            "127.255.0.9",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "0.1.2.3",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "::ffff:0:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "3fff::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn public_addresses_are_public() {
        for address in [
            "1.1.1.1",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "223.255.0.1",
            "2606:4700::1111",
            "2a00:1450::1",
            "64:ff9b::1.1.1.1",
            "::ffff:1.1.1.1",
            "2002:101:101::",
            "2001:4860::8888",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_network_has_the_addresses_of_its_prefix() {
        let contains =
            |network: &str, address: &str| network.parse::<Network>().unwrap().contains(address.parse().unwrap());
        assert!(contains("127.0.0.1", "127.0.0.1") && !contains("127.0.0.1", "127.0.0.2"));
        assert!(contains("127.0.0.1", "::ffff:127.0.0.1"));
        assert!(contains("0.0.0.0/0", "9.9.9.9") && contains("::/0", "fe80::1") && !contains("0.0.0.0/0", "::2"));
        assert!(contains("fd00::/8", "fdff::1") && !contains("fd00::/8", "fe00::1"));
        for wrong in ["", "10.0.0.0/", "10.0.0.0/33", "::/129", "host", "10.0.0.0/-1"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}

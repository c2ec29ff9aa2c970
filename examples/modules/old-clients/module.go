// Refuses clients and tools whose PMIx library is older than release 4. Other policies decide about newer ones.
package main

import (
	"peal"
	"peal/status"
	"strconv"
	"strings"
)

const oldest = 4

// ConnectionPolicy decides by the first number of the release. A peer that states none is left to other policies.
func ConnectionPolicy(request *peal.Request) *peal.PolicyOutcome {
	peer, _ := request.Peer()
	major, _, _ := strings.Cut(peer.Release, ".")
	if number, err := strconv.Atoi(major); err != nil || number >= oldest {
		return peal.Pass()
	}
	return peal.Deny(status.PMIX_ERR_NOT_SUPPORTED, "PMIx "+peer.Release+" is too old; load a library of release 4 or later")
}

// The compiler wants a main function, which is not called.
func main() {}

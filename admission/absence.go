package admission

import "time"

// Reads is what a provider is known to do when it is asked about an effect. The
// zero value is a provider whose "there is none" proves nothing.
type Reads struct {
	// Covers tells that a look-up finds the effect in whatever state it is.
	Covers bool
	// Consistent tells that once Lag has passed each read shows the effect, not
	// only some of them.
	Consistent bool
	// LagKnown tells that Lag is a bound; without one no wait is long enough.
	LagKnown bool
	Lag      Duration // how long after the effect a read may still miss it
	Keeps    Duration // how long after the effect a read still finds it; zero: for ever
}

// Doubt says why reads that found nothing do not prove absence.
type Doubt string

// The doubts, in the order in which they are looked for. No number of further
// reads removes one of the first three.
const (
	NoDoubt           Doubt = ""
	NotCovered        Doubt = "not_covered"        // a look-up does not find every effect
	InconsistentReads Doubt = "inconsistent_reads" // a read may miss what another one shows
	LagUnknown        Doubt = "lag_unknown"        // nobody knows how long to wait
	Forgotten         Doubt = "forgotten"          // the provider may have deleted what it had
	InsideLag         Doubt = "inside_lag"         // asked too early, or before the worker was fenced
	OneRead           Doubt = "one_read"           // a single read is no proof
)

// agreeing is how many reads in a row must find nothing.
const agreeing = 2

// Absent tells whether an effect is proven not to have happened, or what is
// lacking. This is the only place that concludes absence from look-ups.
//
// sent is when the key was first sent, fenced the time from which on nothing of
// the attempt can leave any more. misses are the times at which the latest reads
// began, one after another, each of which the provider answered with "there is
// none". A read that failed, was refused or timed out is no miss, and ends the
// row: whoever counts starts anew after it.
//
//	lag 2s, fenced at :10    misses at :11 and :13     doubt: inside_lag, :11 is before :12
//	                         misses at :12 and :13     absent
//	                         a miss at :13             doubt: one_read
func Absent(r Reads, sent, fenced time.Time, misses []time.Time) Doubt {
	switch {
	case !r.Covers:
		return NotCovered
	case !r.Consistent:
		return InconsistentReads
	case !r.LagKnown:
		return LagUnknown
	}
	settled := fenced.Add(r.Lag.D())
	n := 0
	for _, at := range misses {
		if r.Keeps > 0 && !at.Before(sent.Add(r.Keeps.D())) {
			return Forgotten
		}
		if !at.Before(settled) {
			n++
		}
	}
	switch {
	case n >= agreeing:
		return NoDoubt
	case n < len(misses):
		return InsideLag
	}
	return OneRead
}

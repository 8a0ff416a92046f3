package provider

import (
	"slices"
	"strconv"
	"time"
)

// book holds the charges and the claims on keys. The server's lock guards it;
// the charges, once in, never change.
type book struct {
	made    int // charges ever made; Reset does not start the ids again
	charges []*charge
	byKey   map[string][]*charge
	keys    map[string]*claim
	// cancelled are the keys under which nothing is made any more.
	cancelled map[string]bool
}

type charge struct {
	Charge
	number int
	at     time.Time
}

// claim is what the provider knows of an idempotency key. It is in flight until
// done: from the arrival of its owner until that made its effect or ended.
type claim struct {
	owner  int64 // the first request
	hash   string
	done   bool
	at     time.Time // when done
	answer answer
}

func newBook() book {
	return book{byKey: map[string][]*charge{}, keys: map[string]*claim{}, cancelled: map[string]bool{}}
}

func (b *book) add(v *visit, now time.Time) *charge {
	b.made++
	c := &charge{number: b.made, at: now}
	c.Charge = Charge{ID: "ch_" + strconv.Itoa(b.made), Key: v.key, State: "captured", Amount: v.amount}
	b.charges = append(b.charges, c)
	if v.key != "" {
		b.byKey[v.key] = append(b.byKey[v.key], c)
	}
	return c
}

// claim returns the claim on v's key: an earlier one that is still good, or a
// new one that v owns. A window of zero never closes.
func (b *book) claim(v *visit, window Duration) *claim {
	c := b.keys[v.key]
	if c != nil && c.done && window > 0 && time.Since(c.at) >= time.Duration(window) {
		c = nil
	}
	if c == nil {
		c = &claim{owner: v.id, hash: v.hash}
		b.keys[v.key] = c
	}
	return c
}

// disown forgets the claim of a visit that ended without an answer to save.
func (b *book) disown(v *visit) {
	if c := b.keys[v.key]; c != nil && c.owner == v.id && !c.done {
		delete(b.keys, v.key)
	}
}

func (c *claim) settle(a answer, now time.Time) { c.done, c.answer, c.at = true, a, now }

// replay is the first answer again; a charge is no longer created by it.
func (c *claim) replay() answer {
	a := c.answer
	a.replayed = true
	if a.status == 201 {
		a.status = 200
	}
	return a
}

func (b *book) reset() {
	made := b.made
	*b = newBook()
	b.made = made
}

// visible returns the charges that are at least lag old. They are in the order
// of time, and the result stays valid without the lock.
func visible(charges []*charge, now time.Time, lag Duration) []*charge {
	n, _ := slices.BinarySearchFunc(charges, now, func(c *charge, now time.Time) int {
		if now.Sub(c.at) >= time.Duration(lag) {
			return -1
		}
		return 1
	})
	return charges[:n:n]
}

// past returns the index of the first charge with a higher number.
func past(charges []*charge, number int) int {
	n, found := slices.BinarySearchFunc(charges, number, func(c *charge, number int) int { return c.number - number })
	if found {
		n++
	}
	return n
}

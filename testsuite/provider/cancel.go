package provider

import "net/http"

// postCancel calls an effect off by its key: 409 with the charge if it was made,
// for that is too late; else 200, and from then on no request makes an effect
// with this key, also one that has arrived already (410). It is counted with the
// look-ups.
func (s *Server) postCancel(w http.ResponseWriter, r *http.Request) {
	v := &visit{on: OnLookup, key: r.URL.Query().Get("key")}
	s.serve(w, r, v, func() answer {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch made := s.book.byKey[v.key]; {
		case v.key == "":
			return problem(http.StatusBadRequest, "the key is missing")
		case len(made) > 0:
			return reply(http.StatusConflict, made[0].Charge)
		}
		s.book.cancelled[v.key] = true
		return reply(http.StatusOK, Charge{Key: v.key, State: "cancelled"})
	})
}

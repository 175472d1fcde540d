package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
)

const (
	maxUsers = 1000
	maxItems = 100 // of a user
	maxName  = 100 // bytes of a user's or an item's name
)

type item struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

// starters are what every user has.
var starters = []item{{1, "notebook"}, {2, "pencil"}, {3, "lamp"}}

// items are what users have. They are safe for simultaneous use.
type items struct {
	mu    sync.Mutex
	added map[string][]item // by user, beside the starters
}

func newItems() *items { return &items{added: make(map[string][]item)} }

type itemList struct {
	User  string `json:"user"`
	Items []item `json:"items"`
}

func (s *items) list(w http.ResponseWriter, r *http.Request) {
	user := r.PathValue("user")
	s.mu.Lock()
	all := slices.Concat(starters, s.added[user])
	s.mu.Unlock()
	answer(w, http.StatusOK, itemList{user, all})
}

func (s *items) add(w http.ResponseWriter, r *http.Request) {
	user := r.PathValue("user")
	var body struct {
		Name string `json:"name"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&body); err != nil {
		answer(w, http.StatusBadRequest, failure{Error: `a JSON object is needed, such as {"name":"stapler"}`})
		return
	}
	if body.Name == "" || len(body.Name) > maxName || len(user) > maxName {
		answer(w, http.StatusBadRequest, failure{Error: fmt.Sprintf("names of 1 to %d bytes are allowed", maxName)})
		return
	}
	added, ok := s.put(user, body.Name)
	if !ok {
		answer(w, http.StatusInsufficientStorage, failure{Error: fmt.Sprintf("there is room for %d users with %d items each", maxUsers, maxItems)})
		return
	}
	answer(w, http.StatusCreated, added)
}

// put gives user an item, if there is room for it.
func (s *items) put(user, name string) (item, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has, known := s.added[user]
	n := len(starters) + len(has)
	if n == maxItems || !known && len(s.added) == maxUsers {
		return item{}, false
	}
	it := item{n + 1, name}
	s.added[user] = append(has, it)
	return it, true
}

package main

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
)

// clients are those that may ask for tokens, with their secrets. A real
// service keeps these elsewhere, and hashed.
var clients = map[string]string{
	"demo-app":    "demo-secret",
	"big-app":     "big-secret",
	"trusted-app": "trusted-secret",
}

// users are those whom a client may ask for tokens for, with their passwords.
var users = map[string]string{
	"alex": "alex-password",
	"kim":  "kim-password",
}

// grant is a successful answer of RFC 6749, section 5.1.
type grant struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int    `json:"expires_in"` // seconds
}

// token is an OAuth 2.0 token endpoint for the client credentials grant and the
// password grant of RFC 6749, sections 4.4 and 4.3. The tokens are random, and
// nothing here asks for them.
func token(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	r.Body = http.MaxBytesReader(w, r.Body, 8<<10)
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", "the body is not a form of at most 8 KiB")
		return
	}
	for name, values := range r.PostForm {
		if len(values) > 1 {
			refuse(w, http.StatusBadRequest, "invalid_request", name+" is given more than once")
			return
		}
	}
	id, secret, twice := credentials(r)
	switch {
	case twice:
		refuse(w, http.StatusBadRequest, "invalid_request", "the client authenticates in two ways")
	case !known(clients, id, secret):
		w.Header().Set("WWW-Authenticate", `Basic realm="demo"`)
		refuse(w, http.StatusUnauthorized, "invalid_client", "client_id or client_secret is wrong")
	case r.PostForm.Get("grant_type") == "":
		refuse(w, http.StatusBadRequest, "invalid_request", "grant_type is missing")
	case r.PostForm.Get("grant_type") == "password" && !known(users, r.PostForm.Get("username"), r.PostForm.Get("password")):
		refuse(w, http.StatusBadRequest, "invalid_grant", "username or password is wrong")
	case r.PostForm.Get("grant_type") != "password" && r.PostForm.Get("grant_type") != "client_credentials":
		refuse(w, http.StatusBadRequest, "unsupported_grant_type", "only client_credentials and password are supported")
	default:
		answer(w, http.StatusOK, grant{AccessToken: rand.Text(), TokenType: "Bearer", ExpiresIn: 3600})
	}
}

// credentials returns what the client says about itself in Basic
// authentication or in the form, and whether it does both.
func credentials(r *http.Request) (id, secret string, twice bool) {
	form := r.PostForm.Has("client_secret")
	user, password, basic := r.BasicAuth()
	if !basic {
		return r.PostForm.Get("client_id"), r.PostForm.Get("client_secret"), false
	}
	// RFC 6749, section 2.3.1: both are form-encoded before they are joined.
	id, badID := url.QueryUnescape(user)
	secret, badSecret := url.QueryUnescape(password)
	if badID != nil || badSecret != nil {
		return "", "", form
	}
	return id, secret, form
}

// known compares hashes, so that the time it takes tells nothing about a secret.
func known(secrets map[string]string, name, secret string) bool {
	want, ok := secrets[name]
	got, expected := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(got[:], expected[:]) == 1 && ok
}

func refuse(w http.ResponseWriter, status int, code, description string) {
	answer(w, status, failure{Error: code, Description: description})
}

package main

type replayCommand struct{}

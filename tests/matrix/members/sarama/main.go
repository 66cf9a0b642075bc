// A member of sarama, classic protocol; with "write" before its arguments, a writer. Its handler's Setup and
// Cleanup are the two sides of a generation.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type member struct {
	mu      sync.Mutex
	session sarama.ConsumerGroupSession
	polled  map[string]map[int32]int64
	each    bool
	// digests: the SHA-256 of every value is told.
	digests bool
	group   string
	admin   sarama.ClusterAdmin
	brokers []string
	// napping is held by whoever handles a record, and during a nap.
	napping sync.Mutex
}

var out sync.Mutex

func tell(event string, fields map[string]any) {
	if fields == nil {
		fields = map[string]any{}
	}
	fields["event"], fields["at"] = event, time.Now().UnixMilli()
	line, _ := json.Marshal(fields)
	out.Lock()
	defer out.Unlock()
	fmt.Println(string(line))
}

func fail(err error) {
	tell("failed", map[string]any{"error": err.Error()})
	os.Exit(1)
}

func tellMoved(event string, claims map[string][]int32) {
	names := []string{}
	for topic, numbers := range claims {
		for _, number := range numbers {
			names = append(names, fmt.Sprintf("%s-%d", topic, number))
		}
	}
	sort.Strings(names)
	if len(names) > 0 {
		tell(event, map[string]any{"partitions": names})
	}
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	m.session, m.polled = session, map[string]map[int32]int64{}
	m.mu.Unlock()
	tellMoved("assigned", session.Claims())
	return nil
}

func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	m.session = nil
	m.mu.Unlock()
	tellMoved("revoked", session.Claims())
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.napping.Lock()
			m.napping.Unlock()
			session.MarkMessage(message, "")
			m.mu.Lock()
			if m.polled[message.Topic] == nil {
				m.polled[message.Topic] = map[int32]int64{}
			}
			m.polled[message.Topic][message.Partition] = message.Offset + 1
			m.mu.Unlock()
			digests := []string{}
			if m.digests {
				digest := sha256.Sum256(message.Value)
				digests = append(digests, hex.EncodeToString(digest[:]))
			}
			name := fmt.Sprintf("%s-%d", message.Topic, message.Partition)
			tell("records", map[string]any{"partition": name, "offsets": []int64{message.Offset}, "sha256": digests})
			if m.each {
				m.commit()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// commit commits what was polled. Sarama does not say whether a commit was taken: what the group has committed is
// read back, and told.
func (m *member) commit() {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := map[string][]int32{}
	for topic, partitions := range m.polled {
		for number := range partitions {
			asked[topic] = append(asked[topic], number)
		}
	}
	if m.session == nil || m.session.Context().Err() != nil || len(asked) == 0 {
		return
	}
	tell("committing", nil)
	m.session.Commit()
	answer, err := m.admin.ListConsumerGroupOffsets(m.group, asked)
	if err == nil && answer.Err != sarama.ErrNoError {
		err = answer.Err
	}
	if err != nil {
		tell("refused", map[string]any{"error": err.Error()})
		m.renewAdmin()
		return
	}
	told := map[string]int64{}
	for topic, partitions := range m.polled {
		for number, offset := range partitions {
			block := answer.GetBlock(topic, number)
			if block == nil || block.Offset < offset {
				tell("refused", map[string]any{"error": fmt.Sprintf("%s-%d is behind %d", topic, number, offset)})
				continue
			}
			told[fmt.Sprintf("%s-%d", topic, number)] = block.Offset
		}
	}
	tell("committed", map[string]any{"offsets": told})
}

// renewAdmin makes another client for what is read back: that of sarama 1.43 goes on asking the coordinator that it
// knows, also when that one coordinates no more or its connection is gone.
func (m *member) renewAdmin() {
	admin, err := sarama.NewClusterAdmin(m.brokers, sarama.NewConfig())
	if err != nil {
		tell("refused", map[string]any{"error": err.Error()})
		return
	}
	_ = m.admin.Close()
	m.admin = admin
}

// nap handles no record for so long, or until the next command.
func (m *member) nap(commands chan string, long time.Duration) {
	m.napping.Lock()
	defer m.napping.Unlock()
	select {
	case <-time.After(long):
	case command := <-commands:
		if command != "wake" {
			commands <- command
		}
	}
	tell("napped", nil)
}

func milliseconds(settings map[string]string, name string, otherwise time.Duration) time.Duration {
	if value, err := strconv.Atoi(settings[name]); err == nil {
		return time.Duration(value) * time.Millisecond
	}
	return otherwise
}

func configuration(settings map[string]string) *sarama.Config {
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	group := &config.Consumer.Group
	group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	group.InstanceId = settings["group.instance.id"]
	if group.InstanceId != "" && !config.Version.IsAtLeast(sarama.V2_3_0_0) {
		config.Version = sarama.V2_3_0_0 // releases before 1.44 speak as to Kafka 2.1 unless they are told
	}
	group.Session.Timeout = milliseconds(settings, "session.timeout.ms", group.Session.Timeout)
	group.Heartbeat.Interval = milliseconds(settings, "heartbeat.interval.ms", group.Heartbeat.Interval)
	group.Rebalance.Timeout = milliseconds(settings, "max.poll.interval.ms", group.Rebalance.Timeout)
	config.Metadata.RefreshFrequency = milliseconds(settings, "metadata.max.age.ms", config.Metadata.RefreshFrequency)
	return config
}

func main() {
	arguments := os.Args[1:]
	writes := arguments[0] == "write"
	if writes {
		arguments = arguments[1:]
	}
	settings := map[string]string{}
	for _, pair := range arguments[1:] {
		name, value, _ := strings.Cut(pair, "=")
		settings[name] = value
	}
	if writes {
		write(arguments[0], settings)
		return
	}
	brokers := strings.Split(settings["bootstrap.servers"], ",")
	admin, err := sarama.NewClusterAdmin(brokers, sarama.NewConfig())
	if err != nil {
		fail(err)
	}
	m := &member{
		each:    settings["commit.each.poll"] == "true",
		digests: settings["tell.digests"] == "true",
		group:   settings["group.id"],
		admin:   admin,
		brokers: brokers,
	}
	group, err := sarama.NewConsumerGroup(brokers, settings["group.id"], configuration(settings))
	if err != nil {
		fail(err)
	}
	topics, ended := strings.Split(arguments[0], ","), make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, topics, m); errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
		}
	}()
	m.obey()
	tell("closing", nil)
	stop()
	<-ended
	if err := group.Close(); errors.Is(err, io.EOF) {
		// The coordinator went away under the leave: sarama does not send another.
		tell("refused", map[string]any{"error": err.Error()})
	} else if err != nil {
		fail(err)
	}
	tell("closed", nil)
}

// obey carries out commands until the one to close, or the end of input.
func (m *member) obey() {
	commands := make(chan string, 16)
	go func() {
		input := bufio.NewScanner(os.Stdin)
		for input.Scan() {
			commands <- strings.TrimSpace(input.Text())
		}
		commands <- "close"
	}()
	for command := range commands {
		word, argument, _ := strings.Cut(command, " ")
		switch word {
		case "commit":
			m.commit()
		case "nap":
			m.nap(commands, milliseconds(map[string]string{"nap": argument}, "nap", 0))
		case "close":
			return
		}
	}
}

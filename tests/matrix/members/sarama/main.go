// A member of sarama, classic protocol. Its handler's Setup and Cleanup are the two sides of a generation.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
			session.MarkMessage(message, "")
			m.mu.Lock()
			if m.polled[message.Topic] == nil {
				m.polled[message.Topic] = map[int32]int64{}
			}
			m.polled[message.Topic][message.Partition] = message.Offset + 1
			m.mu.Unlock()
			name := fmt.Sprintf("%s-%d", message.Topic, message.Partition)
			tell("records", map[string]any{"partition": name, "offsets": []int64{message.Offset}})
			if m.each {
				m.commit()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// commit returns when the offsets are acknowledged; sarama does not say whether they were.
func (m *member) commit() {
	m.mu.Lock()
	defer m.mu.Unlock()
	told := map[string]int64{}
	for topic, partitions := range m.polled {
		for number, offset := range partitions {
			told[fmt.Sprintf("%s-%d", topic, number)] = offset
		}
	}
	if m.session == nil || m.session.Context().Err() != nil || len(told) == 0 {
		return
	}
	tell("committing", nil)
	m.session.Commit()
	tell("committed", map[string]any{"offsets": told})
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
	group.Session.Timeout = milliseconds(settings, "session.timeout.ms", group.Session.Timeout)
	group.Heartbeat.Interval = milliseconds(settings, "heartbeat.interval.ms", group.Heartbeat.Interval)
	group.Rebalance.Timeout = milliseconds(settings, "max.poll.interval.ms", group.Rebalance.Timeout)
	config.Metadata.RefreshFrequency = milliseconds(settings, "metadata.max.age.ms", config.Metadata.RefreshFrequency)
	return config
}

func main() {
	settings := map[string]string{}
	for _, pair := range os.Args[2:] {
		name, value, _ := strings.Cut(pair, "=")
		settings[name] = value
	}
	m := &member{each: settings["commit.each.poll"] == "true"}
	brokers := strings.Split(settings["bootstrap.servers"], ",")
	group, err := sarama.NewConsumerGroup(brokers, settings["group.id"], configuration(settings))
	if err != nil {
		fail(err)
	}
	topics, ended := strings.Split(os.Args[1], ","), make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, topics, m); errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
		}
	}()
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		command := strings.TrimSpace(input.Text())
		if command == "commit" {
			m.commit()
		} else if command == "close" {
			break
		}
	}
	tell("closing", nil)
	stop()
	<-ended
	if err := group.Close(); err != nil {
		fail(err)
	}
	tell("closed", nil)
}

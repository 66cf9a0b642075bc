package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/IBM/sarama"
)

// No record is held back here because of its size: what is too large is the server's to say.
const requestBytesMax = 8 << 20

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func producer(brokers []string, codec string) sarama.SyncProducer {
	config := sarama.NewConfig()
	config.Producer.Compression = codecs[codec]
	config.Producer.MaxMessageBytes = requestBytesMax
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	made, err := sarama.NewSyncProducer(brokers, config)
	if err != nil {
		fail(err)
	}
	return made
}

// write is the other program: a writer, as tests/matrix/writers has them.
func write(topic string, settings map[string]string) {
	producers := map[string]sarama.SyncProducer{}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		words := strings.Fields(input.Text())
		if words[0] == "close" {
			break
		}
		codec := words[1]
		if producers[codec] == nil {
			producers[codec] = producer(strings.Split(settings["bootstrap.servers"], ","), codec)
		}
		size, _ := strconv.Atoi(words[2])
		partition, _ := strconv.Atoi(words[3])
		text := fmt.Sprintf("%d bytes that %s compresses. ", size, codec)
		value := []byte(strings.Repeat(text, size/len(text)+1)[:size])
		message := &sarama.ProducerMessage{
			Topic: topic, Partition: int32(partition), Value: sarama.ByteEncoder(value),
		}
		_, offset, err := producers[codec].SendMessage(message)
		if refused := sarama.ErrNoError; errors.As(err, &refused) {
			tell("refused", map[string]any{"code": int16(refused), "error": err.Error()})
			continue
		} else if err != nil {
			fail(err)
		}
		digest := sha256.Sum256(value)
		tell("written", map[string]any{
			"partition": fmt.Sprintf("%s-%d", topic, partition),
			"offset":    offset,
			"sha256":    hex.EncodeToString(digest[:]),
		})
	}
	tell("closed", nil)
}

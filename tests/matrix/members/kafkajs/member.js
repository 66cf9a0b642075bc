// A member of kafkajs. It has no call-back before a rebalance and resolves a pattern once, when it subscribes.
// Put out of its group it joins anew without a word, so what it still owns at a join was lost.
'use strict'

const readline = require('node:readline')
const { Kafka, logLevel } = require('kafkajs')
const { sha256 } = require('./codecs')

const [topics, ...pairs] = process.argv.slice(2)
const settings = Object.fromEntries(pairs.map((pair) => [pair.split('=')[0], pair.slice(pair.indexOf('=') + 1)]))
const tellsDigests = settings['tell.digests'] === 'true'
const commitsEachPoll = settings['commit.each.poll'] === 'true'
const polled = new Map()
let owned = []
let napMs = 0
let wake = () => {}

function tell(event, fields = {}) {
  process.stdout.write(JSON.stringify({ event, at: Date.now(), ...fields }) + '\n')
}

function drop(event) {
  if (owned.length > 0) tell(event, { partitions: owned })
  owned = []
  polled.clear()
}

const kafka = new Kafka({
  brokers: [settings['bootstrap.servers']],
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 20 },
})
const consumer = kafka.consumer({
  groupId: settings['group.id'],
  sessionTimeout: Number(settings['session.timeout.ms'] ?? 10000),
  rebalanceTimeout: Number(settings['max.poll.interval.ms'] ?? 60000),
  heartbeatInterval: Number(settings['heartbeat.interval.ms'] ?? 500),
  metadataMaxAge: Number(settings['metadata.max.age.ms'] ?? 1000),
  maxWaitTimeInMs: 100,
})

async function commit() {
  const offsets = Object.fromEntries(polled)
  if (polled.size === 0) return
  try {
    await consumer.commitOffsets(
      [...polled].map(([name, offset]) => {
        const at = name.lastIndexOf('-')
        return { topic: name.slice(0, at), partition: Number(name.slice(at + 1)), offset: String(offset) }
      }),
    )
    tell('committed', { offsets })
  } catch (error) {
    tell('refused', { error: String(error) })
  }
}

async function eachBatch({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
  if (!isRunning() || isStale()) return
  const name = `${batch.topic}-${batch.partition}`
  const offsets = batch.messages.map((message) => Number(message.offset))
  if (offsets.length > 0) {
    resolveOffset(batch.lastOffset())
    polled.set(name, offsets[offsets.length - 1] + 1)
    const digests = tellsDigests ? batch.messages.map(({ value }) => sha256(value)) : []
    tell('records', { partition: name, offsets, sha256: digests })
    if (commitsEachPoll) await commit()
  }
  if (napMs > 0) {
    const ms = napMs
    napMs = 0
    await new Promise((done) => {
      wake = done
      setTimeout(done, ms)
    })
    tell('napped')
  }
  await heartbeat()
}

async function close() {
  drop('revoked')
  await consumer.disconnect()
  tell('closed')
  process.exit(0)
}

function listen() {
  const { events } = consumer
  consumer.on(events.GROUP_JOIN, ({ payload }) => {
    drop('lost')
    const mine = Object.entries(payload.memberAssignment)
    owned = mine.flatMap(([topic, numbers]) => numbers.map((number) => `${topic}-${number}`))
    if (owned.length > 0) tell('assigned', { partitions: owned })
  })
  consumer.on(events.REBALANCING, () => drop('revoked'))
  consumer.on(events.CRASH, ({ payload }) => {
    drop('lost')
    if (!payload.restart) {
      tell('failed', { error: String(payload.error) })
      process.exit(1)
    }
  })
  const input = readline.createInterface({ input: process.stdin })
  input.on('line', (line) => {
    const [command, argument] = line.trim().split(' ')
    if (command === 'commit') commit()
    if (command === 'nap') napMs = Number(argument)
    if (command === 'wake') wake()
    if (command === 'close') close()
  })
  input.on('close', close)
}

async function run() {
  listen()
  await consumer.connect()
  const pattern = topics.startsWith('pattern:') ? [new RegExp(`^${topics.slice('pattern:'.length)}$`)] : topics.split(',')
  await consumer.subscribe({ topics: pattern, fromBeginning: true })
  await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch })
}

run().catch((error) => {
  tell('failed', { error: String(error) })
  process.exit(1)
})

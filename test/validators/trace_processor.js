"use strict";
// Perfetto's trace processor, in its WebAssembly build, as a server that the Python package `perfetto` can ask (TraceProcessor(remote=SOCKET)).
//
// usage: node trace_processor.js ENGINE_FOLDER TRACE SOCKET
//
// ENGINE_FOLDER holds engine_bundle.js and trace_processor*.wasm as Perfetto's web pages have them. The bundle is made for a web worker, so
// the few things that it wants of one are given to it here. What clients send and get is passed on as it is; only the trace is put into
// messages here (TraceProcessorRpcStream in Perfetto's trace_processor.proto). It prints "ready" when clients may come, serves one
// client, and ends with it. It knows nothing of what the trace should hold.

const fs = require("fs");
const net = require("net");
const path = require("path");

const APPEND_TRACE_DATA = 1;
const FINALIZE_TRACE_DATA = 2;

function varint(value) {
  const bytes = [];
  for (; value >= 0x80; value = Math.floor(value / 128)) bytes.push((value % 128) | 0x80);
  bytes.push(value);
  return Buffer.from(bytes);
}

// A field with a length: key, length, bytes.
function field(number, bytes) {
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

// One request: TraceProcessorRpc.request is field 2.
function request(method, more = Buffer.alloc(0)) {
  return new Uint8Array(field(1, Buffer.concat([Buffer.from([0x10, method]), more])));
}

// How the bundle reads its .wasm file: synchronously, as web workers may.
function fileRequest(folder) {
  return class {
    open(_method, name) {
      this.name = path.basename(name);
    }

    send() {
      const bytes = fs.readFileSync(path.join(folder, this.name));
      this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    }
  };
}

// Runs the bundle; the answer is where it takes requests: port.onmessage.
function startEngine(folder, onReply) {
  const self = { location: { href: "engine_bundle.js" } };
  const scope = {
    self,
    importScripts: () => {},
    WorkerGlobalScope: class {},
    XMLHttpRequest: fileRequest(folder),
    process: undefined,
    console: { ...console, log: () => {}, warn: () => {} },
  };
  const code = fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8");
  new Function(...Object.keys(scope), code)(...Object.values(scope));
  const port = { postMessage: onReply };
  self.onmessage({ data: port });
  return port;
}

function main(folder, trace, socket) {
  let client = null;
  const port = startEngine(folder, (bytes) => client?.write(Buffer.from(bytes)));
  const server = net.createServer((connection) => {
    client = connection;
    connection.on("data", (bytes) => port.onmessage({ data: new Uint8Array(bytes) }));
    connection.on("close", () => process.exit(0));
  });
  // The engine is set up in a turn of its own.
  setImmediate(() => {
    port.onmessage({ data: request(APPEND_TRACE_DATA, field(101, fs.readFileSync(trace))) });
    port.onmessage({ data: request(FINALIZE_TRACE_DATA) });
    server.listen(socket, () => console.log("ready"));
  });
}

if (process.argv.length !== 5) {
  console.error("usage: node trace_processor.js ENGINE_FOLDER TRACE SOCKET");
  process.exit(2);
}
main(...process.argv.slice(2));

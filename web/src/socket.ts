/**
 * The socket's own Web Worker: what arrives and what leaves goes on while the trainer's thread computes a step. Each
 * socket has a port; bytes cross it as an `ArrayBuffer`, in both directions.
 */

/** Asks for a socket. `port` takes the bytes to send, and `null` to close. */
interface Opening {
  url: string;
  protocol: string;
  port: MessagePort;
}
/** What the port says beside bytes. `client-wasm/src/socket.rs` reads it. */
type SocketEvent =
  | { kind: "open" }
  /** Bytes that have left since the socket opened. */
  | { kind: "sent"; bytes: number }
  | { kind: "closed"; code: number; reason: string };

/** Milliseconds between two words on what has left: most commits are out sooner. */
const SENT_EVERY = 100;

self.onmessage = ({ data }: MessageEvent<Opening>) => {
  const say = (event: SocketEvent) => data.port.postMessage(event);
  try {
    carry(new WebSocket(data.url, data.protocol), data.port, say);
  } catch (error) {
    say({ kind: "closed", code: 0, reason: String(error) });
    data.port.close();
  }
};

function carry(socket: WebSocket, port: MessagePort, say: (event: SocketEvent) => void) {
  let taken = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const sent = () => {
    say({ kind: "sent", bytes: taken - socket.bufferedAmount });
    timer = socket.bufferedAmount > 0 ? setTimeout(sent, SENT_EVERY) : undefined;
  };
  socket.binaryType = "arraybuffer";
  socket.onopen = () => say({ kind: "open" });
  socket.onmessage = ({ data }) => {
    if (data instanceof ArrayBuffer) port.postMessage(data, [data]);
  };
  socket.onclose = ({ code, reason }) => {
    clearTimeout(timer);
    say({ kind: "closed", code, reason });
    port.close();
  };
  port.onmessage = ({ data }: MessageEvent<ArrayBuffer | null>) => {
    if (data === null) return socket.close();
    // One that is closing takes none, and its close is reported.
    if (socket.readyState !== WebSocket.OPEN) return;
    taken += data.byteLength;
    socket.send(data);
    timer ??= setTimeout(sent, SENT_EVERY);
  };
}

import type { Socket } from "node:net";

/** Reads up to and with a mark and leaves the rest unread, so that the connection can go on as something else. */
export function readHead(
  socket: Socket,
  options: { mark: string; limit: number; timeoutMs: number },
): Promise<string> {
  return new Promise((resolve, reject) => {
    let head = Buffer.alloc(0);
    const timer = setTimeout(() => finish(new Error("it did not answer in time")), options.timeoutMs);
    const look = (): void => {
      for (
        let chunk = socket.read() as Buffer | null;
        chunk !== null;
        chunk = socket.read() as Buffer | null
      ) {
        head = Buffer.concat([head, chunk]);
        const at = head.indexOf(options.mark);
        if (at === -1 && head.length <= options.limit) continue;
        if (at === -1 || at > options.limit) return finish(new Error("its first words are too long"));
        const rest = head.subarray(at + options.mark.length);
        finish();
        if (rest.length > 0) socket.unshift(rest);
        return resolve(head.toString("latin1", 0, at));
      }
    };
    const fail = (): void => finish(new Error("it closed the connection"));
    const finish = (error?: Error): void => {
      clearTimeout(timer);
      socket.off("readable", look).off("end", fail).off("close", fail).off("error", finish);
      if (error !== undefined) reject(error);
    };
    socket.on("readable", look).on("end", fail).on("close", fail).on("error", finish);
  });
}

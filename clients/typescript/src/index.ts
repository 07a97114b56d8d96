/** Starts, follows and changes durable workflow runs over HTTP. `api.ts` is generated from the OpenAPI document. */

import createClient, { type Client } from "openapi-fetch";
import type { components, paths } from "./api.js";

export type { components, paths };
export type Run = components["schemas"]["RunDetail"];
export type Problem = components["schemas"]["Problem"];

/** The answer of the server is a problem (RFC 9457). */
export class WorkflowError extends Error {
  constructor(readonly problem: Problem) {
    super(`${problem.detail}; ${problem.help}`);
    this.name = "WorkflowError";
  }
}

/** How to start a run, beside its input. The key makes a repetition harmless. */
export type StartOptions = Omit<components["schemas"]["NewRun"], "workflow" | "input">;

/** What happened to a run: its status (`run`), an attempt of a step (`step`), or its end. After a `reset`, read it anew. */
export type RunEvent =
  | { event: "run"; run: string; status: Run["status"] }
  | { event: "step"; run: string; step: string; attempt: number; kind: string; status: string; position: number | null }
  | { event: "reset"; run: string }
  | { event: "end"; run: string; status?: Run["status"]; deleted?: boolean };

/** How often in a row a stream is opened again without getting an event. */
const mostFailures = 20;

const ended = new Set(["succeeded", "failed", "canceled"]);

/** Runs by a server, whose routes stand below the URL: `new Workflows("http://127.0.0.1:7777/workflows", token)`. */
export class Workflows {
  /** Every route of the document, with its types. */
  readonly api: Client<paths>;

  constructor(url: string, token?: string) {
    const headers: Record<string, string> = token === undefined ? {} : { Authorization: `Bearer ${token}` };
    this.api = createClient<paths>({ baseUrl: `${url.replace(/\/+$/, "")}/api/v1`, headers });
  }

  /** Starts a run, and returns its id. With a key that has a run already, returns the id of that run. */
  async start(workflow: string, input: unknown, options: StartOptions = {}): Promise<string> {
    const done = checked(await this.api.POST("/runs", { body: { workflow, input, ...options } }));
    if (!("run" in done)) {
      throw new TypeError(`the server started no run: ${JSON.stringify(done)}`);
    }
    return done.run;
  }

  /** Sends a signal to a run. */
  async signal(run: string, name: string, payload: unknown, key?: string): Promise<void> {
    checked(await this.api.POST("/runs/{run}/signals", { params: { path: { run } }, body: { name, payload, key } }));
  }

  /** Yields the run whenever it is seen in another state, until it has ended. */
  async *follow(run: string): AsyncGenerator<Run> {
    let seen = "";
    for await (const _ of this.events(run)) {
      const detail = checked(await this.api.GET("/runs/{run}", { params: { path: { run } } }));
      const state = JSON.stringify([detail.status, detail.why]);
      if (state !== seen) {
        seen = state;
        yield detail;
      }
      if (ended.has(detail.status)) return;
    }
  }

  /** Yields what happens to a run, until its end. Goes on after the last event if the connection is lost. */
  async *events(run: string): AsyncGenerator<RunEvent> {
    let last: string | undefined;
    for (let failures = 0; ; ) {
      try {
        const header = last === undefined ? {} : { "Last-Event-ID": last };
        const params = { path: { run }, header };
        const answer = await this.api.GET("/runs/{run}/events", { params, parseAs: "stream" });
        if (answer.response.status === 204) return;
        for await (const { id, name, data } of parsed(checked(answer) as unknown as ReadableStream<Uint8Array>)) {
          failures = 0;
          if (name === "problem") throw new WorkflowError(data as Problem);
          if (id !== undefined) last = id;
          yield { ...(data as object), event: name } as RunEvent;
          if (name === "end") return;
        }
      } catch (error) {
        const isFinal = error instanceof WorkflowError && error.problem.status < 500 && error.problem.status !== 429;
        failures += 1;
        if (isFinal || last === undefined || failures > mostFailures) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }

  /** Waits for the end of a run, and returns its output. Throws if the run fails or is canceled. */
  async result<T = unknown>(run: string): Promise<T> {
    for (;;) {
      const detail = checked(
        await this.api.GET("/runs/{run}/result", { params: { path: { run }, query: { wait: "30s" } } }),
      );
      if (detail.status === "succeeded") return (await this.output(run, detail)) as T;
      if (ended.has(detail.status)) throw new Error(`run ${run} has ${detail.status}: ${detail.error?.message ?? ""}`);
    }
  }

  /** Returns the whole output of a run. Its description has only a small one. */
  private async output(run: string, { output }: Run): Promise<unknown> {
    if (output === undefined || output === null || "json" in output) return output?.json;
    const params = { path: { run }, query: { of: "output" as const } };
    const whole = checked(await this.api.GET("/runs/{run}/payload", { params }));
    if (!("json" in whole)) throw new Error(`the output of run ${run} cannot be read: ${whole.unreadable ?? "no value"}`);
    return whole.json;
  }
}

function checked<T>(answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data !== undefined) return answer.data;
  const error = answer.error;
  if (typeof error === "object" && error !== null && "detail" in error) throw new WorkflowError(error as Problem);
  throw new Error(`the server answered ${answer.response.status}, and not as a server of workflows does`);
}

/** Reads server-sent events. */
async function* parsed(body: ReadableStream<Uint8Array>): AsyncGenerator<{ id?: string; name: string; data: unknown }> {
  const reader = body.pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += value;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const fields: Record<string, string> = {};
        for (const line of text.slice(0, end).split("\n")) {
          const [, name, rest] = /^(\w+): ?(.*)$/s.exec(line) ?? [];
          if (name !== undefined && rest !== undefined) fields[name] = name in fields ? `${fields[name]}\n${rest}` : rest;
        }
        text = text.slice(end + 2);
        const { id, event, data } = fields;
        if (event !== undefined && data !== undefined) {
          yield { ...(id !== undefined && { id }), name: event, data: JSON.parse(data) };
        }
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

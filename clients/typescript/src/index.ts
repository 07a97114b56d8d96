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
  async *follow(run: string, everyMs = 500): AsyncGenerator<Run> {
    let seen = "";
    for (;;) {
      const detail = checked(await this.api.GET("/runs/{run}", { params: { path: { run } } }));
      const state = JSON.stringify([detail.status, detail.why]);
      if (state !== seen) {
        seen = state;
        yield detail;
      }
      if (ended.has(detail.status)) return;
      await new Promise((resolve) => setTimeout(resolve, everyMs));
    }
  }

  /** Waits for the end of a run, and returns its output. Throws if the run fails or is canceled. */
  async result<T = unknown>(run: string): Promise<T> {
    for (;;) {
      const detail = checked(
        await this.api.GET("/runs/{run}/result", { params: { path: { run }, query: { wait: "30s" } } }),
      );
      if (detail.status === "succeeded") return detail.output?.json as T;
      if (ended.has(detail.status)) throw new Error(`run ${run} has ${detail.status}: ${detail.error?.message ?? ""}`);
    }
  }
}

function checked<T>(answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data !== undefined) return answer.data;
  const error = answer.error;
  if (typeof error === "object" && error !== null && "detail" in error) throw new WorkflowError(error as Problem);
  throw new Error(`the server answered ${answer.response.status}, and not as a server of workflows does`);
}

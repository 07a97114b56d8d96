Feature: Flow of tasks
  What the conformance features leave out.

  Scenario: Branches of a fork have data of their own
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: own, name: fork, version: '1.0.0' }
    do:
      - both:
          fork:
            branches:
              - left:
                  do:
                    - one: { set: { x: '${ .x + 1 }' } }
                    - two: { set: { x: '${ .x + 1 }' } }
              - right:
                  set: { x: '${ .x * 10 }' }
    """
    And given the workflow input is:
    """yaml
    x: 1
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    [ { x: 3 }, { x: 10 } ]
    """

  Scenario: A loop ends by its condition and begins again
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: own, name: loops, version: '1.0.0' }
    do:
      - rows:
          for: { each: row, in: '[[1, 2, 3], [], [4, 5, 6]]', at: at }
          do:
            - cells:
                for: { each: cell, in: $row }
                while: $index < 2
                do:
                  - add: { set: '${ . + [ $at * 100 + $cell ] }' }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    [ 1, 2, 204, 205 ]
    """

  Scenario: Exit ends a scope and end the workflow
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: own, name: exits, version: '1.0.0' }
    do:
      - inner:
          do:
            - one: { set: { x: 1 }, then: exit }
            - never: { set: { x: 2 } }
      - last: { set: { x: '${ .x + 10 }' }, then: end }
      - after: { set: { x: 3 } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    x: 11
    """
    And last should run after one
    And last should run last

  Scenario: A cycle of tasks ends by a switch
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: own, name: cycle, version: '1.0.0' }
    do:
      - more: { set: { n: '${ .n + 1 }' } }
      - enough:
          switch:
            - no: { when: .n < 3, then: more }
            - yes: { then: exit }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    n: 3
    """
